package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
)

// recordEvents records the same event twice, which creates one Event and increments its count by a
// patch.
func recordEvents(ctx context.Context, p *program) (string, error) {
	one, err := p.typed.CoreV1().ConfigMaps(p.namespace).Get(ctx, "one", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	sink := &typedcore.EventSinkImpl{Interface: p.typed.CoreV1().Events(p.namespace)}
	broadcaster.StartRecordingToSink(sink)
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "client-go"})
	for range 2 {
		recorder.Eventf(one, corev1.EventTypeNormal, "Seen", "saw %s", one.Name)
	}
	var found *corev1.Event
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		options := metav1.ListOptions{FieldSelector: "involvedObject.name=one,reason=Seen,type=Normal"}
		events, err := p.typed.CoreV1().Events(p.namespace).List(ctx, options)
		if err != nil || len(events.Items) != 1 {
			return false, err
		}
		found = &events.Items[0]
		return found.Count == 2, nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%q about the %s %s, %d times", found.Message, found.InvolvedObject.Kind, found.InvolvedObject.Name, found.Count), nil
}

// conflicts runs clients that read, change and write the same object, and retry after a conflict.
func conflicts(ctx context.Context, p *program) (string, error) {
	const writers, increments = 4, 5
	client := p.typed.CoreV1().ConfigMaps(p.namespace)
	if err := p.put(ctx, "counter", nil); err != nil {
		return "", err
	}
	increment := func() error {
		counter, err := client.Get(ctx, "counter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var count int
		_, _ = fmt.Sscan(counter.Data["count"], &count)
		counter.Data = map[string]string{"count": fmt.Sprint(count + 1)}
		_, err = client.Update(ctx, counter, metav1.UpdateOptions{})
		return err
	}
	patient := wait.Backoff{Steps: 100, Duration: time.Millisecond, Factor: 1.1, Jitter: 1, Cap: 100 * time.Millisecond}
	failures := make([]error, writers)
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for range increments {
				if err := retry.RetryOnConflict(patient, increment); err != nil {
					failures[writer] = err
				}
			}
		})
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return "", err
	}
	stale, err := client.Get(ctx, "counter", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	count := stale.Data["count"]
	if err := increment(); err != nil {
		return "", err
	}
	_, err = client.Update(ctx, stale, metav1.UpdateOptions{})
	return fmt.Sprintf("counted to %s; a stale write: %v", count, err), nil
}

func serverSideApply(ctx context.Context, p *program) (string, error) {
	client := p.typed.CoreV1().ConfigMaps(p.namespace)
	config := func(value string) *applycore.ConfigMapApplyConfiguration {
		return applycore.ConfigMap("applied", p.namespace).WithData(map[string]string{"k": value})
	}
	first, err := client.Apply(ctx, config("v"), metav1.ApplyOptions{FieldManager: "first"})
	if err != nil {
		return "", err
	}
	again, err := client.Apply(ctx, config("v"), metav1.ApplyOptions{FieldManager: "first"})
	if err != nil {
		return "", err
	}
	_, conflict := client.Apply(ctx, config("w"), metav1.ApplyOptions{FieldManager: "second"})
	if !apierrors.IsConflict(conflict) {
		return "", fmt.Errorf("expected a conflict: %w", conflict)
	}
	forced, err := client.Apply(ctx, config("w"), metav1.ApplyOptions{FieldManager: "second", Force: true})
	if err != nil {
		return "", err
	}
	extracted, err := applycore.ExtractConfigMap(forced, "second")
	if err != nil {
		return "", err
	}
	unchanged := first.ResourceVersion == again.ResourceVersion
	replicas, err := p.applyDeployment(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("repeated apply without a change: %v; %v; forced %v, of which second has %v; %s",
		unchanged, conflict, forced.Data, extracted.Data, replicas), nil
}

// applyDeployment applies one Deployment with two field managers. One manager owns the replicas, and the
// other manager owns all other fields.
func (p *program) applyDeployment(ctx context.Context) (string, error) {
	client := p.typed.AppsV1().Deployments(p.namespace)
	labels := map[string]string{"app": "web"}
	container := applycore.Container().WithName("main").WithImage("nginx:1")
	template := applycore.PodTemplateSpec().WithLabels(labels).WithSpec(applycore.PodSpec().WithContainers(container))
	spec := applyapps.DeploymentSpec().WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).WithTemplate(template)
	deployment := applyapps.Deployment("web", p.namespace).WithSpec(spec)
	if _, err := client.Apply(ctx, deployment, metav1.ApplyOptions{FieldManager: "author"}); err != nil {
		return "", err
	}
	scale := applyapps.Deployment("web", p.namespace).WithSpec(applyapps.DeploymentSpec().WithReplicas(3))
	scaled, err := client.Apply(ctx, scale, metav1.ApplyOptions{FieldManager: "scaler"})
	if err != nil {
		return "", err
	}
	container.WithImage("nginx:2")
	changed, err := client.Apply(ctx, deployment, metav1.ApplyOptions{FieldManager: "author"})
	if err != nil {
		return "", err
	}
	image := changed.Spec.Template.Spec.Containers[0].Image
	return fmt.Sprintf("%d replicas, %d after %s at generation %d",
		*scaled.Spec.Replicas, *changed.Spec.Replicas, image, changed.Generation), nil
}

func strategicPatch(ctx context.Context, p *program) (string, error) {
	client := p.typed.AppsV1().Deployments(p.namespace)
	patch := []byte(`{"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}`)
	patched, err := client.Patch(ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return "", err
	}
	var names []string
	for _, container := range patched.Spec.Template.Spec.Containers {
		names = append(names, container.Name)
	}
	return fmt.Sprint(names), nil
}

func statusAndScale(ctx context.Context, p *program) (string, error) {
	client := p.typed.AppsV1().Deployments(p.namespace)
	deployment, err := client.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 3, UpdatedReplicas: 3}
	if deployment, err = client.UpdateStatus(ctx, deployment, metav1.UpdateOptions{}); err != nil {
		return "", err
	}
	scale, err := client.GetScale(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	scale.Spec = autoscalingv1.ScaleSpec{Replicas: 5}
	scaled, err := client.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d replicas as status; %d wanted of %q", deployment.Status.Replicas, scaled.Spec.Replicas, scaled.Status.Selector), nil
}

func finalizers(ctx context.Context, p *program) (string, error) {
	client := p.typed.CoreV1().ConfigMaps(p.namespace)
	const hold = "client-go.example.com/hold"
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{hold}}}
	if _, err := client.Create(ctx, held, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if err := client.Delete(ctx, "held", metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	going, err := client.Get(ctx, "held", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	isGoing := going.DeletionTimestamp != nil
	going.Finalizers = nil
	if _, err := client.Update(ctx, going, metav1.UpdateOptions{}); err != nil {
		return "", err
	}
	_, err = client.Get(ctx, "held", metav1.GetOptions{})
	return fmt.Sprintf("being deleted: %v; then %v", isGoing, err), nil
}
