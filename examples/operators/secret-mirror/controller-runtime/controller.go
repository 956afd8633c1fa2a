package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	fieldOwner           = client.FieldOwner("secret-mirror")
	finalizer            = "example.com/mirror"
	mirrorLabel          = "example.com/mirror"
	mirroredFromLabel    = "example.com/mirrored-from"
	namespacesAnnotation = "example.com/namespaces"
)

// SecretReconciler copies Secrets into other namespaces.
type SecretReconciler struct {
	client.Client
}

// Reconcile applies the copies of a Secret, and deletes the copies that are no longer wanted.
func (r *SecretReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var secret corev1.Secret
	if err := r.Get(ctx, req.NamespacedName, &secret); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !isSource(&secret) || !secret.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(&secret, finalizer) {
			return ctrl.Result{}, nil
		}
		if err := r.deleteCopies(ctx, &secret, nil); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&secret, finalizer)
		return ctrl.Result{}, r.Update(ctx, &secret)
	}
	if controllerutil.AddFinalizer(&secret, finalizer) {
		if err := r.Update(ctx, &secret); err != nil {
			return ctrl.Result{}, err
		}
	}
	namespaces := targetNamespaces(&secret)
	if err := r.deleteCopies(ctx, &secret, namespaces); err != nil {
		return ctrl.Result{}, err
	}
	for _, namespace := range namespaces {
		if err := r.applyCopy(ctx, &secret, namespace); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// applyCopy applies the copy in a namespace. It fails if another Secret has this name.
func (r *SecretReconciler) applyCopy(ctx context.Context, secret *corev1.Secret, namespace string) error {
	var existing corev1.Secret
	err := r.Get(ctx, types.NamespacedName{Namespace: namespace, Name: secret.Name}, &existing)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && existing.Labels[mirroredFromLabel] != secret.Namespace {
		return fmt.Errorf("the Secret %s/%s is not a copy of a Secret in %s", namespace, secret.Name, secret.Namespace)
	}
	desired := corev1ac.Secret(secret.Name, namespace).
		WithLabels(map[string]string{mirroredFromLabel: secret.Namespace}).
		WithType(secret.Type).
		WithData(secret.Data)
	return r.Apply(ctx, desired, fieldOwner, client.ForceOwnership)
}

// deleteCopies deletes the copies outside of the given namespaces.
func (r *SecretReconciler) deleteCopies(ctx context.Context, secret *corev1.Secret, except []string) error {
	var copies corev1.SecretList
	if err := r.List(ctx, &copies, client.MatchingLabels{mirroredFromLabel: secret.Namespace}); err != nil {
		return err
	}
	for _, found := range copies.Items {
		if found.Name != secret.Name || slices.Contains(except, found.Namespace) {
			continue
		}
		if err := r.Delete(ctx, &found); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// targetNamespaces returns the namespaces of the annotation, without the namespace of the Secret.
func targetNamespaces(secret *corev1.Secret) []string {
	var namespaces []string
	for namespace := range strings.SplitSeq(secret.Annotations[namespacesAnnotation], ",") {
		namespace = strings.TrimSpace(namespace)
		if namespace != "" && namespace != secret.Namespace {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

func isSource(object client.Object) bool {
	return object.GetLabels()[mirrorLabel] == "true"
}

// isManaged selects the sources, and the Secrets that were sources.
func isManaged(object client.Object) bool {
	return isSource(object) || controllerutil.ContainsFinalizer(object, finalizer)
}

func isCopy(object client.Object) bool {
	return object.GetLabels()[mirroredFromLabel] != ""
}

// sourceOf returns the request for the source of a copy.
func sourceOf(_ context.Context, object client.Object) []reconcile.Request {
	source := types.NamespacedName{Namespace: object.GetLabels()[mirroredFromLabel], Name: object.GetName()}
	return []reconcile.Request{{NamespacedName: source}}
}

// SetupWithManager adds the controller to the manager.
func (r *SecretReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Secret{}, builder.WithPredicates(predicate.NewPredicateFuncs(isManaged))).
		Watches(
			&corev1.Secret{},
			handler.EnqueueRequestsFromMapFunc(sourceOf),
			builder.WithPredicates(predicate.NewPredicateFuncs(isCopy)),
		).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}
