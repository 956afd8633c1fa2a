package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// eventLog collects the events that the handler of an informer receives.
type eventLog struct {
	informer cache.SharedIndexInformer
	events   chan string
	stop     context.CancelFunc
}

// watch starts an informer and waits until the informer has synced.
func watch(ctx context.Context, informer cache.SharedIndexInformer) (*eventLog, error) {
	s := &eventLog{informer: informer, events: make(chan string, 100)}
	send := func(verb string, object any) {
		if unknown, is := object.(cache.DeletedFinalStateUnknown); is {
			verb, object = "missed deletion of", unknown.Obj
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			s.events <- err.Error()
			return
		}
		// With controllers, each namespace also contains their ConfigMap.
		if accessor.GetName() != "kube-root-ca.crt" {
			s.events <- verb + " " + accessor.GetName()
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { send("added", object) },
		UpdateFunc: func(_, object any) { send("updated", object) },
		DeleteFunc: func(object any) { send("deleted", object) },
	})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	s.stop = stop
	go informer.RunWithContext(running)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return s, errors.New("informer did not sync before the deadline")
	}
	return s, nil
}

// expect waits for count events and returns them.
func (s *eventLog) expect(ctx context.Context, count int) (string, error) {
	var all []string
	for range count {
		select {
		case event := <-s.events:
			all = append(all, event)
		case <-ctx.Done():
			return "", fmt.Errorf("received %d of %d events: %s", len(all), count, strings.Join(all, ", "))
		}
	}
	return strings.Join(all, ", "), nil
}

func (p *program) put(ctx context.Context, name string, labels map[string]string) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := p.typed.CoreV1().ConfigMaps(p.namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

func (p *program) patch(ctx context.Context, name, patch string) error {
	_, err := p.typed.CoreV1().ConfigMaps(p.namespace).Patch(
		ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (p *program) remove(ctx context.Context, name string) error {
	return p.typed.CoreV1().ConfigMaps(p.namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// change returns the errors of several changes. Go makes the changes in the order of the arguments.
func change(actions ...error) error { return errors.Join(actions...) }

func sharedInformer(ctx context.Context, p *program) (string, error) {
	if err := p.put(ctx, "one", nil); err != nil {
		return "", err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(p.typed, 0, informers.WithNamespace(p.namespace))
	s, err := watch(ctx, factory.Core().V1().ConfigMaps().Informer())
	if err != nil {
		return "", err
	}
	defer s.stop()
	first, err := s.expect(ctx, 1)
	if err != nil {
		return "", err
	}
	err = change(p.put(ctx, "two", nil), p.patch(ctx, "one", `{"data": {"k": "v"}}`), p.remove(ctx, "two"))
	if err != nil {
		return "", err
	}
	then, err := s.expect(ctx, 3)
	if err != nil {
		return "", err
	}
	one, err := factory.Core().V1().ConfigMaps().Lister().ConfigMaps(p.namespace).Get("one")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; %s; in the cache %v", first, then, one.Data), nil
}

// filteredInformer checks that a changed label removes an object from the informer and adds it back.
func filteredInformer(ctx context.Context, p *program) (string, error) {
	web := map[string]string{"app": "web"}
	if err := change(p.put(ctx, "web", web), p.put(ctx, "hidden", web), p.put(ctx, "db", nil)); err != nil {
		return "", err
	}
	tweak := informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.LabelSelector = "app in (web,api)"
		options.FieldSelector = "metadata.name!=hidden"
	})
	factory := informers.NewSharedInformerFactoryWithOptions(p.typed, 0, informers.WithNamespace(p.namespace), tweak)
	s, err := watch(ctx, factory.Core().V1().ConfigMaps().Informer())
	if err != nil {
		return "", err
	}
	defer s.stop()
	err = change(
		p.patch(ctx, "hidden", `{"data": {"k": "v"}}`),
		p.patch(ctx, "web", `{"metadata": {"labels": {"app": "other"}}}`),
		p.patch(ctx, "db", `{"metadata": {"labels": {"app": "api"}}}`),
		p.patch(ctx, "web", `{"metadata": {"labels": {"app": "web"}}}`),
		p.remove(ctx, "db"),
	)
	if err != nil {
		return "", err
	}
	return s.expect(ctx, 5)
}

func dynamicConfigMaps(ctx context.Context, p *program) (string, error) {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(p.dynamic, 0, p.namespace,
		func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=one" })
	s, err := watch(ctx, factory.ForResource(configMaps).Informer())
	if err != nil {
		return "", err
	}
	defer s.stop()
	if err := p.patch(ctx, "one", `{"data": {"k": "w"}}`); err != nil {
		return "", err
	}
	return s.expect(ctx, 2)
}

func dynamicWidgets(ctx context.Context, p *program) (string, error) {
	client := p.dynamic.Resource(widgets).Namespace(p.namespace)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(p.dynamic, 0, p.namespace, nil)
	s, err := watch(ctx, factory.ForResource(widgets).Informer())
	if err != nil {
		return "", err
	}
	defer s.stop()
	created, err := client.Create(ctx, widget("one", 1), metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if err := unstructured.SetNestedField(created.Object, int64(2), "spec", "size"); err != nil {
		return "", err
	}
	if _, err := client.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		return "", err
	}
	if err := client.Delete(ctx, "one", metav1.DeleteOptions{}); err != nil {
		return "", err
	}
	return s.expect(ctx, 3)
}

func metadataInformer(ctx context.Context, p *program) (string, error) {
	factory := metadatainformer.NewFilteredSharedInformerFactory(p.metadata, 0, p.namespace,
		func(options *metav1.ListOptions) { options.LabelSelector = "app=web" })
	informer := factory.ForResource(configMaps)
	s, err := watch(ctx, informer.Informer())
	if err != nil {
		return "", err
	}
	defer s.stop()
	first, err := s.expect(ctx, 2)
	if err != nil {
		return "", err
	}
	if err := p.patch(ctx, "web", `{"metadata": {"annotations": {"note": "x"}}}`); err != nil {
		return "", err
	}
	then, err := s.expect(ctx, 1)
	if err != nil {
		return "", err
	}
	cached, err := informer.Lister().ByNamespace(p.namespace).Get("web")
	if err != nil {
		return "", err
	}
	partial, is := cached.(*metav1.PartialObjectMetadata)
	if !is {
		return "", fmt.Errorf("cache contains a %T instead of PartialObjectMetadata", cached)
	}
	return fmt.Sprintf("%s; %s; %s with %v", sorted(first), then, partial.Kind, partial.Annotations), nil
}

// listTransport reports whether the client uses streaming lists.
func listTransport(_ context.Context, _ *program) (string, error) {
	switch lists, streams, _ := watched.counts(); {
	case lists > 0 && streams == 0:
		return "by LIST", nil
	case lists == 0 && streams > 0:
		return "by WATCH", nil
	default:
		return "", fmt.Errorf("expected one transport, but got %d lists by LIST and %d by WATCH", lists, streams)
	}
}

// relist interrupts its watch, misses a deletion, and resumes from an expired resourceVersion.
func relist(ctx context.Context, p *program) (string, error) {
	config := rest.CopyConfig(p.config)
	config.WrapTransport = nil
	own := newConnection()
	own.wrap(config)
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", err
	}
	tweak := informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "relist" })
	factory := informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithNamespace(p.namespace), tweak)
	marked := map[string]string{"relist": ""}
	if err := change(p.put(ctx, "kept", marked), p.put(ctx, "removed", marked)); err != nil {
		return "", err
	}
	s, err := watch(ctx, factory.Core().V1().ConfigMaps().Informer())
	if err != nil {
		return "", err
	}
	defer s.stop()
	first, err := s.expect(ctx, 2)
	if err != nil {
		return "", err
	}
	// client-go does not resume a watch without events. It starts with a list instead.
	if err := p.patch(ctx, "kept", `{"data": {"k": "v"}}`); err != nil {
		return "", err
	}
	watching, err := s.expect(ctx, 1)
	if err != nil {
		return "", err
	}
	own.interrupt()
	lists, streams, _ := own.counts()
	missed := change(p.remove(ctx, "removed"), p.patch(ctx, "kept", `{"data": {"k": "w"}}`), p.put(ctx, "new", marked))
	if missed != nil {
		return "", missed
	}
	if err := p.compact(); err != nil {
		return "", err
	}
	own.restore()
	then, err := s.expect(ctx, 3)
	if err != nil {
		return "", err
	}
	listsNow, streamsNow, tooOld := own.counts()
	if tooOld == 0 || listsNow+streamsNow == lists+streams {
		return "", fmt.Errorf("%d responses with an expired version, %d lists and %d streams before, %d and %d after",
			tooOld, lists, streams, listsNow, streamsNow)
	}
	return fmt.Sprintf("%s; %s; its version had expired: %s", sorted(first), watching, sorted(then)), nil
}

var widgets = schema.GroupVersionResource{Group: "client-go.example.com", Version: "v1", Resource: "widgets"}
