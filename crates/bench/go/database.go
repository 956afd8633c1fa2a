package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Database is a custom resource, as a program with a custom resource declares it. crates/bench/src/client/database.rs
// declares the same type.
type Database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              DatabaseSpec   `json:"spec,omitempty"`
	Status            DatabaseStatus `json:"status,omitempty"`
}

type DatabaseSpec struct {
	Engine     string            `json:"engine"`
	Version    string            `json:"version"`
	Replicas   int32             `json:"replicas"`
	Storage    DatabaseStorage   `json:"storage"`
	Parameters map[string]string `json:"parameters,omitempty"`
	Users      []DatabaseUser    `json:"users,omitempty"`
	Backup     *DatabaseBackup   `json:"backup,omitempty"`
}

type DatabaseStorage struct {
	Size      string  `json:"size"`
	ClassName *string `json:"className,omitempty"`
}

type DatabaseUser struct {
	Name       string   `json:"name"`
	SecretName string   `json:"secretName"`
	Privileges []string `json:"privileges,omitempty"`
}

type DatabaseBackup struct {
	Schedule string `json:"schedule"`
	Bucket   string `json:"bucket"`
	Keep     int32  `json:"keep"`
}

type DatabaseStatus struct {
	Phase         string             `json:"phase"`
	ReadyReplicas int32              `json:"readyReplicas"`
	Conditions    []metav1.Condition `json:"conditions,omitempty"`
	Members       []DatabaseMember   `json:"members,omitempty"`
}

type DatabaseMember struct {
	Name     string `json:"name"`
	Address  string `json:"address"`
	Role     string `json:"role"`
	LagBytes int64  `json:"lagBytes"`
}

// DatabaseList is a list of Databases.
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Database `json:"items"`
}

// DeepCopyObject copies only the outer struct, because this program never changes a cached object.
func (d *Database) DeepCopyObject() runtime.Object {
	copied := *d
	return &copied
}

// DeepCopyObject copies only the outer struct.
func (l *DatabaseList) DeepCopyObject() runtime.Object {
	copied := *l
	return &copied
}

// databases creates an informer of all Databases with a typed client, which uses JSON.
func databases(config *rest.Config) (cache.SharedIndexInformer, error) {
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(version, &Database{}, &DatabaseList{})
	metav1.AddToGroupVersion(scheme, version)
	own := rest.CopyConfig(config)
	own.GroupVersion = &version
	own.APIPath = "/apis"
	own.ContentType = runtime.ContentTypeJSON
	own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, err
	}
	source := cache.NewListWatchFromClient(client, "databases", metav1.NamespaceAll, fields.Everything())
	return cache.NewSharedIndexInformer(source, &Database{}, 0, cache.Indexers{}), nil
}
