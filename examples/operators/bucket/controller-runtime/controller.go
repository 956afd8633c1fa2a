package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	examplev1 "kube-informer.examples/operators/bucket/controller-runtime/api/v1"
	"kube-informer.examples/operators/bucket/controller-runtime/storage"
)

const finalizer = "example.com/bucket"

// BucketReconciler reconciles a Bucket with the storage service.
type BucketReconciler struct {
	client.Client
	Storage      *storage.Client
	PollInterval time.Duration
}

// Reconcile creates, updates or deletes the bucket in the storage service.
func (r *BucketReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var bucket examplev1.Bucket
	if err := r.Get(ctx, req.NamespacedName, &bucket); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !bucket.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(&bucket, finalizer) {
			return ctrl.Result{}, nil
		}
		if err := r.Storage.Delete(ctx, bucket.Namespace, bucket.Name); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&bucket, finalizer)
		return ctrl.Result{}, r.Update(ctx, &bucket)
	}
	if controllerutil.AddFinalizer(&bucket, finalizer) {
		if err := r.Update(ctx, &bucket); err != nil {
			return ctrl.Result{}, err
		}
	}
	stored, err := r.Storage.Get(ctx, bucket.Namespace, bucket.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if stored == nil || stored.Region != bucket.Spec.Region || stored.Quota != bucket.Spec.Quota {
		stored, err = r.Storage.Put(ctx, bucket.Namespace, bucket.Name, bucket.Spec.Region, bucket.Spec.Quota)
		if err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: r.PollInterval}, r.updateStatus(ctx, &bucket, stored.UsedBytes)
}

// updateStatus reports the use of the bucket.
func (r *BucketReconciler) updateStatus(ctx context.Context, bucket *examplev1.Bucket, usedBytes int64) error {
	before := bucket.DeepCopy()
	ready := metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionTrue,
		Reason:             "Synced",
		Message:            "the bucket has the desired state",
		ObservedGeneration: bucket.Generation,
	}
	if usedBytes > bucket.Spec.Quota {
		ready.Status = metav1.ConditionFalse
		ready.Reason = "QuotaExceeded"
		ready.Message = fmt.Sprintf("the bucket contains more than %d bytes", bucket.Spec.Quota)
	}
	meta.SetStatusCondition(&bucket.Status.Conditions, ready)
	bucket.Status.ObservedGeneration = bucket.Generation
	bucket.Status.UsedBytes = usedBytes
	if equality.Semantic.DeepEqual(before.Status, bucket.Status) {
		return nil
	}
	return r.Status().Patch(ctx, bucket, client.MergeFrom(before))
}

// SetupWithManager adds the controller to the manager.
func (r *BucketReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&examplev1.Bucket{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}
