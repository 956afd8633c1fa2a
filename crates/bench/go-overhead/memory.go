package main

import (
	"context"
	"fmt"
	"math/rand"
	"runtime/debug"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// The objects are those of crates/bench/src/overhead/objects.rs.
const (
	objectsPerNamespace = 100
	objectsPerGroup     = 10
	ownedInterval       = 10
	group               = "group"
	revision            = "revision"
)

func objectNamespace(number int) string {
	return fmt.Sprintf("team-%05d", number/objectsPerNamespace)
}

func objectName(number int) string {
	return fmt.Sprintf("web-7d4b9c6f5-%07d", number)
}

func objectGroup(number int) string {
	return fmt.Sprintf("group-%06d", number/objectsPerGroup)
}

func objectUID(number int, kind string) types.UID {
	return types.UID(fmt.Sprintf("%s-ceea-467f-a0e6-%012d", kind, number))
}

func objectKey(number int) types.NamespacedName {
	return types.NamespacedName{Namespace: objectNamespace(number), Name: objectName(number)}
}

func objectMeta(number int, kind string, version int) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:            objectName(number),
		Namespace:       objectNamespace(number),
		UID:             objectUID(number, kind),
		ResourceVersion: strconv.Itoa(version),
		Labels:          map[string]string{group: objectGroup(number)},
	}
}

func newConfigMap(number int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: objectMeta(number, "8f14e45f", 1)}
}

// newSecret returns the Secret that a ConfigMap owns. Only changes of the label pass the predicate of the controller.
func newSecret(number, version, labelled int) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: objectMeta(number, "c9f0f895", version)}
	secret.Labels[revision] = strconv.Itoa(labelled)
	controller := true
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1",
		Kind:       "ConfigMap",
		Name:       objectName(number),
		UID:        objectUID(number, "8f14e45f"),
		Controller: &controller,
	}}
	return secret
}

// shuffled returns the numbers of all objects in an order that depends only on their number.
func shuffled(objects int) []int {
	return rand.New(rand.NewSource(7)).Perm(objects)
}

// memorySource lists objects in memory, and sends the events of its watch.
type memorySource struct {
	objects []runtime.Object
	events  *watch.FakeWatcher
}

// eventBuffer is the number of events that the watch holds.
const eventBuffer = 1024

func newMemorySource(objects []runtime.Object) *memorySource {
	return &memorySource{objects: objects, events: watch.NewFakeWithChanSize(eventBuffer, false)}
}

// listWatch returns the source for a reflector, without streaming lists.
func (s *memorySource) listWatch() *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListFunc: func(metav1.ListOptions) (runtime.Object, error) {
			list := &corev1.List{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
			return list, meta.SetList(list, s.objects)
		},
		WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return s.events, nil },
	}
}

// memoryCache is a cache of controller-runtime whose informers read from memory.
type memoryCache struct {
	cache.Cache
	mapper        meta.RESTMapper
	maps, secrets *memorySource
}

func newMemoryCache(maps, secrets []runtime.Object, noCopies bool) (*memoryCache, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"ConfigMap", "Secret"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	created := &memoryCache{mapper: mapper, maps: newMemorySource(maps), secrets: newMemorySource(secrets)}
	options := cache.Options{
		Scheme:                       scheme,
		Mapper:                       mapper,
		DefaultUnsafeDisableDeepCopy: &noCopies,
		NewInformer: func(
			_ toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			source := created.maps
			if _, ok := object.(*corev1.Secret); ok {
				source = created.secrets
			}
			return toolscache.NewSharedIndexInformer(noStreamedLists{source.listWatch()}, object, resync, indexers)
		},
	}
	var err error
	created.Cache, err = cache.New(&rest.Config{Host: "http://127.0.0.1:9"}, options)
	return created, err
}

// noStreamedLists makes a reflector use lists.
type noStreamedLists struct {
	*toolscache.ListWatch
}

// IsWatchListSemanticsUnSupported is the method that client-go looks for.
func (noStreamedLists) IsWatchListSemanticsUnSupported() bool {
	return true
}

func configMaps(objects int) []runtime.Object {
	maps := make([]runtime.Object, objects)
	for number := range maps {
		maps[number] = newConfigMap(number)
	}
	return maps
}

// ownedSecrets returns a Secret for some ConfigMaps. Each has a greater version than the previous one.
func ownedSecrets(objects, version, labelled int) []*corev1.Secret {
	secrets := make([]*corev1.Secret, 0, objects/ownedInterval+2)
	for number := 0; number < objects; number += ownedInterval {
		secrets = append(secrets, newSecret(number, version+len(secrets), labelled))
	}
	return secrets
}

func freeMemory() {
	debug.FreeOSMemory()
	// The second collection frees the objects whose finalizers ran.
	debug.FreeOSMemory()
}

// measureMemory measures the bytes per object of three indexes, and the bytes per handler.
func measureMemory(ctx context.Context, objects int, measured figures) error {
	// First, because later allocations could reuse memory that the indexes released.
	if err := measureHandlers(ctx, measured); err != nil {
		return err
	}
	maps := toolscache.NewSharedIndexInformer(
		noStreamedLists{newMemorySource(configMaps(objects)).listWatch()}, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	go maps.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), maps.HasSynced) {
		return fmt.Errorf("the cache did not sync")
	}
	before, err := resident()
	if err != nil {
		return err
	}
	indexes := []struct {
		figure string
		value  func(*corev1.ConfigMap) string
	}{
		{"unique_index_bytes", func(m *corev1.ConfigMap) string { return m.Name }},
		{"index_bytes", func(m *corev1.ConfigMap) string { return m.Labels[group] }},
		{"coarse_index_bytes", func(m *corev1.ConfigMap) string { return m.Namespace }},
	}
	for _, index := range indexes {
		values := func(object any) ([]string, error) { return []string{index.value(object.(*corev1.ConfigMap))}, nil }
		if err := maps.AddIndexers(toolscache.Indexers{index.figure: values}); err != nil {
			return err
		}
		after, err := resident()
		if err != nil {
			return err
		}
		measured[index.figure] = (after - before) / float64(objects)
		before = after
	}
	return nil
}

func measureHandlers(ctx context.Context, measured figures) error {
	source := newMemorySource([]runtime.Object{newSecret(0, 1, 1)})
	secrets := toolscache.NewSharedIndexInformer(noStreamedLists{source.listWatch()}, &corev1.Secret{}, 0, toolscache.Indexers{})
	go secrets.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), secrets.HasSynced) {
		return fmt.Errorf("the cache did not sync")
	}
	before, err := resident()
	if err != nil {
		return err
	}
	handlers := make([]toolscache.InformerSynced, 0, handlerCount)
	for range handlerCount {
		registration, err := secrets.AddEventHandler(toolscache.ResourceEventHandlerFuncs{})
		if err != nil {
			return err
		}
		handlers = append(handlers, registration.HasSynced)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), handlers...) {
		return fmt.Errorf("a handler did not sync")
	}
	after, err := resident()
	measured["handler_bytes"] = (after - before) / handlerCount
	return err
}
