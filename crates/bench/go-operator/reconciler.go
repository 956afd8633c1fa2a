package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// ready is the type of the condition that is true when all children are up to date.
	ready = "Ready"
	// fieldOwner is the field manager of all operators.
	fieldOwner = client.FieldOwner("website-operator")
	// page is the key of the page in a ConfigMap.
	page = "index.html"
	// port is the port of a Service, and serverPort the port of the containers.
	port       = 80
	serverPort = 8080
	// volume is the name of the volume with the page.
	volume = "html"
)

// reconciler creates a ConfigMap, a Deployment and a Service for each Website, and reports the Website as ready.
type reconciler struct {
	client.Client
	counter *reconcileCounter
}

// Reconcile reconciles one Website.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	err := r.reconcileChildren(ctx, request)
	r.counter.record(request.Name, err)
	return ctrl.Result{}, err
}

func (r *reconciler) reconcileChildren(ctx context.Context, request ctrl.Request) error {
	var website Website
	if err := r.Get(ctx, request.NamespacedName, &website); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := r.ensureConfigMap(ctx, &website); err != nil {
		return err
	}
	if err := r.ensureDeployment(ctx, &website); err != nil {
		return err
	}
	if err := r.ensureService(ctx, &website); err != nil {
		return err
	}
	if isReported(&website) {
		return nil
	}
	return r.report(ctx, &website)
}

func (r *reconciler) ensureConfigMap(ctx context.Context, website *Website) error {
	var found corev1.ConfigMap
	if owned, err := r.isOwned(ctx, website, &found); err != nil {
		return err
	} else if owned && found.Data[page] == website.Spec.HTML {
		return nil
	}
	desired := corev1ac.ConfigMap(website.Name, website.Namespace).
		WithLabels(labels(website)).
		WithOwnerReferences(owner(website)).
		WithData(map[string]string{page: website.Spec.HTML})
	return r.apply(ctx, desired)
}

func (r *reconciler) ensureDeployment(ctx context.Context, website *Website) error {
	var found appsv1.Deployment
	if owned, err := r.isOwned(ctx, website, &found); err != nil {
		return err
	} else if owned && isUpToDate(&found, website) {
		return nil
	}
	container := corev1ac.Container().
		WithName("server").
		WithImage(website.Spec.Image).
		WithPorts(corev1ac.ContainerPort().WithContainerPort(serverPort)).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(volume).WithMountPath("/srv").WithReadOnly(true))
	pods := corev1ac.PodTemplateSpec().
		WithLabels(labels(website)).
		WithSpec(corev1ac.PodSpec().
			WithContainers(container).
			WithVolumes(corev1ac.Volume().
				WithName(volume).
				WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(website.Name))))
	desired := appsv1ac.Deployment(website.Name, website.Namespace).
		WithLabels(labels(website)).
		WithOwnerReferences(owner(website)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(website.Spec.Replicas).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels(website))).
			WithTemplate(pods))
	return r.apply(ctx, desired)
}

func isUpToDate(found *appsv1.Deployment, website *Website) bool {
	containers := found.Spec.Template.Spec.Containers
	return found.Spec.Replicas != nil && *found.Spec.Replicas == website.Spec.Replicas &&
		len(containers) > 0 && containers[0].Image == website.Spec.Image
}

func (r *reconciler) ensureService(ctx context.Context, website *Website) error {
	var found corev1.Service
	if owned, err := r.isOwned(ctx, website, &found); err != nil {
		return err
	} else if owned && len(found.Spec.Ports) > 0 && found.Spec.Ports[0].Port == port {
		return nil
	}
	desired := corev1ac.Service(website.Name, website.Namespace).
		WithLabels(labels(website)).
		WithOwnerReferences(owner(website)).
		WithSpec(corev1ac.ServiceSpec().
			WithClusterIP(corev1.ClusterIPNone).
			WithSelector(labels(website)).
			WithPorts(corev1ac.ServicePort().WithPort(port).WithTargetPort(intstr.FromInt32(serverPort))))
	return r.apply(ctx, desired)
}

// isOwned reads a child of a Website from the cache, and reports whether the Website owns it.
func (r *reconciler) isOwned(ctx context.Context, website *Website, found client.Object) (bool, error) {
	if err := r.Get(ctx, client.ObjectKeyFromObject(website), found); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return metav1.IsControlledBy(found, website), nil
}

func (r *reconciler) apply(ctx context.Context, desired runtime.ApplyConfiguration) error {
	return r.Apply(ctx, desired, fieldOwner, client.ForceOwnership)
}

func (r *reconciler) report(ctx context.Context, website *Website) error {
	before := website.DeepCopy()
	meta.SetStatusCondition(&website.Status.Conditions, metav1.Condition{
		Type:               ready,
		Status:             metav1.ConditionTrue,
		Reason:             "Applied",
		Message:            "all children are up to date",
		ObservedGeneration: website.Generation,
	})
	website.Status.ObservedGeneration = website.Generation
	return r.Status().Patch(ctx, website, client.MergeFrom(before))
}

func isReported(website *Website) bool {
	return website.Status.ObservedGeneration == website.Generation &&
		meta.IsStatusConditionTrue(website.Status.Conditions, ready)
}

func owner(website *Website) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(groupVersion.String()).
		WithKind(kind).
		WithName(website.Name).
		WithUID(website.UID).
		WithController(true)
}

func labels(website *Website) map[string]string {
	return map[string]string{"app": website.Name}
}
