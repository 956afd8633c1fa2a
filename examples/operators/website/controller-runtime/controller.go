package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	examplev1 "kube-informer.examples/operators/website/controller-runtime/api/v1"
)

const fieldOwner = client.FieldOwner("website-operator")

// WebsiteReconciler reconciles a Website.
type WebsiteReconciler struct {
	client.Client
}

// Reconcile applies the children of a Website and reports its state.
func (r *WebsiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var website examplev1.Website
	if err := r.Get(ctx, req.NamespacedName, &website); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !website.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	children := []runtime.ApplyConfiguration{configMap(&website), deployment(&website), service(&website)}
	for _, child := range children {
		if err := r.Apply(ctx, child, fieldOwner, client.ForceOwnership); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, r.updateStatus(ctx, &website)
}

// updateStatus reports the number of ready replicas.
func (r *WebsiteReconciler) updateStatus(ctx context.Context, website *examplev1.Website) error {
	var deployment appsv1.Deployment
	if err := r.Get(ctx, client.ObjectKeyFromObject(website), &deployment); client.IgnoreNotFound(err) != nil {
		return err
	}
	before := website.DeepCopy()
	ready := metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionFalse,
		Reason:             "Progressing",
		Message:            fmt.Sprintf("%d of %d replicas are ready", deployment.Status.ReadyReplicas, website.Spec.Replicas),
		ObservedGeneration: website.Generation,
	}
	if deployment.Status.ReadyReplicas >= website.Spec.Replicas {
		ready.Status = metav1.ConditionTrue
		ready.Reason = "Available"
	}
	meta.SetStatusCondition(&website.Status.Conditions, ready)
	website.Status.ObservedGeneration = website.Generation
	website.Status.ReadyReplicas = deployment.Status.ReadyReplicas
	if equality.Semantic.DeepEqual(before.Status, website.Status) {
		return nil
	}
	return r.Status().Patch(ctx, website, client.MergeFrom(before))
}

func configMap(website *examplev1.Website) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(website.Name, website.Namespace).
		WithLabels(labels(website)).
		WithOwnerReferences(ownerReference(website)).
		WithData(map[string]string{"index.html": website.Spec.HTML})
}

func deployment(website *examplev1.Website) *appsv1ac.DeploymentApplyConfiguration {
	container := corev1ac.Container().
		WithName("server").
		WithImage(website.Spec.Image).
		WithPorts(corev1ac.ContainerPort().WithContainerPort(8080)).
		WithVolumeMounts(corev1ac.VolumeMount().WithName("html").WithMountPath("/srv").WithReadOnly(true))
	volume := corev1ac.Volume().
		WithName("html").
		WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(website.Name))
	return appsv1ac.Deployment(website.Name, website.Namespace).
		WithLabels(labels(website)).
		WithOwnerReferences(ownerReference(website)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(website.Spec.Replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels(website))).
			WithTemplate(corev1ac.PodTemplateSpec().
				WithLabels(labels(website)).
				WithSpec(corev1ac.PodSpec().WithContainers(container).WithVolumes(volume))))
}

func service(website *examplev1.Website) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(website.Name, website.Namespace).
		WithLabels(labels(website)).
		WithOwnerReferences(ownerReference(website)).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			WithSelector(labels(website)).
			WithPorts(corev1ac.ServicePort().WithPort(80).WithTargetPort(intstr.FromInt32(8080))))
}

func labels(website *examplev1.Website) map[string]string {
	return map[string]string{"app": website.Name}
}

func ownerReference(website *examplev1.Website) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(examplev1.GroupVersion.String()).
		WithKind("Website").
		WithName(website.Name).
		WithUID(website.UID).
		WithController(true)
}

// SetupWithManager adds the controller to the manager.
func (r *WebsiteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&examplev1.Website{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}
