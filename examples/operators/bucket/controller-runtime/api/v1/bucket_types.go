package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BucketSpec is the desired state of a Bucket.
type BucketSpec struct {
	// Region is the region of the storage.
	Region string `json:"region"`

	// Quota is the number of bytes that the bucket may contain.
	// +kubebuilder:validation:Minimum=0
	Quota int64 `json:"quota"`
}

// BucketStatus is the observed state of a Bucket.
type BucketStatus struct {
	// ObservedGeneration is the generation of the last applied spec.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// UsedBytes is the number of bytes in the bucket.
	// +optional
	UsedBytes int64 `json:"usedBytes,omitempty"`

	// Conditions contains the condition Ready.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status

// Bucket is a bucket of an external storage service.
type Bucket struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec BucketSpec `json:"spec"`

	// +optional
	Status BucketStatus `json:"status,omitzero"`
}

// +kubebuilder:object:root=true

// BucketList is a list of Buckets.
type BucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Bucket `json:"items"`
}
