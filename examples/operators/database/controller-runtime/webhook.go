package main

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	examplev1 "kube-informer.examples/operators/database/controller-runtime/api/v1"
)

// DatabaseDefaulter sets missing fields of a Database.
type DatabaseDefaulter struct{}

// Default sets one replica.
func (*DatabaseDefaulter) Default(_ context.Context, database *examplev1.Database) error {
	if database.Spec.Replicas == nil {
		one := int32(1)
		database.Spec.Replicas = &one
	}
	return nil
}

// DatabaseValidator permits that a volume grows.
type DatabaseValidator struct{}

// ValidateCreate permits every Database.
func (*DatabaseValidator) ValidateCreate(context.Context, *examplev1.Database) (admission.Warnings, error) {
	return nil, nil
}

// ValidateUpdate denies a smaller volume.
func (*DatabaseValidator) ValidateUpdate(_ context.Context, old, database *examplev1.Database) (admission.Warnings, error) {
	if database.Spec.StorageGiB < old.Spec.StorageGiB {
		return nil, fmt.Errorf("spec.storageGib: cannot shrink from %d to %d", old.Spec.StorageGiB, database.Spec.StorageGiB)
	}
	return nil, nil
}

// ValidateDelete permits every deletion.
func (*DatabaseValidator) ValidateDelete(context.Context, *examplev1.Database) (admission.Warnings, error) {
	return nil, nil
}

// SetupDatabaseWebhooks adds the webhooks to the manager, with conversions between all registered versions.
func SetupDatabaseWebhooks(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &examplev1.Database{}).
		WithDefaulter(&DatabaseDefaulter{}).
		WithValidator(&DatabaseValidator{}).
		Complete()
}
