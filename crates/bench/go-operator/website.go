package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

const kind = "Website"

// Website is the custom resource of crates/bench/src/operators/website.rs.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebsiteSpec   `json:"spec"`
	Status WebsiteStatus `json:"status,omitempty"`
}

// WebsiteSpec is what somebody wants to be served.
type WebsiteSpec struct {
	Image    string `json:"image"`
	Replicas int32  `json:"replicas"`
	HTML     string `json:"html"`
}

// WebsiteStatus says what was done about it.
type WebsiteStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// WebsiteList is a list of Websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Website `json:"items"`
}

func addWebsites(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Website{}, &WebsiteList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

// What follows is what controller-gen generates.

// DeepCopyInto copies all of it into another one.
func (in *Website) DeepCopyInto(out *Website) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		for i := range in.Status.Conditions {
			in.Status.Conditions[i].DeepCopyInto(&out.Status.Conditions[i])
		}
	}
}

// DeepCopy gives another one.
func (in *Website) DeepCopy() *Website {
	out := new(Website)
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject gives another one.
func (in *Website) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject gives another one.
func (in *WebsiteList) DeepCopyObject() runtime.Object {
	out := new(WebsiteList)
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Website, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
