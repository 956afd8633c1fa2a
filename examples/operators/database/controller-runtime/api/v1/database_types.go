package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DatabaseSpec is the desired state of a Database.
type DatabaseSpec struct {
	// StorageGiB is the size of the volume in GiB.
	// +kubebuilder:validation:Minimum=0
	StorageGiB int64 `json:"storageGib"`

	// Replicas is the number of Pods. The webhook sets 1 if it is missing.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:storageversion

// Database is a database, in the version that the API server stores.
type Database struct {
	metav1.TypeMeta `json:",inline"`

	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec DatabaseSpec `json:"spec"`
}

// Hub marks this version as the hub of conversions.
func (*Database) Hub() {}

// +kubebuilder:object:root=true

// DatabaseList is a list of Databases.
type DatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Database `json:"items"`
}
