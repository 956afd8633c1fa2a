package main

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// minDelay and maxDelay are the delays of a key after failures: the defaults of the controllers.
const (
	minDelay = 5 * time.Millisecond
	maxDelay = 1000 * time.Second
)

// settle is the time without a reconcile after which a controller is at rest.
const settle = 500 * time.Millisecond

// emptyReconciler reads its object from the cache, and counts.
type emptyReconciler struct {
	client.Reader
	count, expected atomic.Int64
	complete        chan struct{}
	// gate blocks reconciles until it is closed.
	gate atomic.Pointer[chan struct{}]
}

// Reconcile reads one object.
func (r *emptyReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	if gate := r.gate.Load(); gate != nil {
		<-*gate
	}
	var object corev1.ConfigMap
	if err := r.Get(ctx, request.NamespacedName, &object); err != nil {
		return ctrl.Result{}, err
	}
	if r.count.Add(1) == r.expected.Load() {
		r.complete <- struct{}{}
	}
	return ctrl.Result{}, nil
}

func (r *emptyReconciler) expect(reconciles int) {
	r.expected.Store(r.count.Load() + int64(reconciles))
}

// settle waits until at least `reconciles` reconciles are complete and no further one follows.
func (r *emptyReconciler) settle(reconciles int) {
	for before := int64(-1); ; {
		time.Sleep(settle)
		count := r.count.Load()
		if count >= int64(reconciles) && count == before {
			return
		}
		before = count
	}
}

func measureReconciles(ctx context.Context, objects int, noCopies bool, measured figures) error {
	ctrl.SetLogger(logr.Discard())
	secrets := ownedSecrets(objects, 1, 1)
	owned := make([]runtime.Object, len(secrets))
	for at, secret := range secrets {
		owned[at] = secret
	}
	objectCache, err := newMemoryCache(configMaps(objects), owned, noCopies)
	if err != nil {
		return err
	}
	indexed := func(object client.Object) []string { return []string{object.GetLabels()[group]} }
	if err := objectCache.IndexField(ctx, &corev1.ConfigMap{}, group, indexed); err != nil {
		return err
	}
	if err := measureController(ctx, objectCache, objects, noCopies, measured); err != nil {
		return err
	}
	if err := measureReads(ctx, objectCache, objects, measured); err != nil {
		return err
	}
	measureQueue(objects, noCopies, measured)
	return nil
}

func measureController(ctx context.Context, objectCache *memoryCache, objects int, noCopies bool, measured figures) error {
	manager, err := ctrl.NewManager(&rest.Config{Host: "http://127.0.0.1:9"}, ctrl.Options{
		Metrics:        metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return objectCache.mapper, nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return objectCache, nil },
		NewClient: func(*rest.Config, client.Options) (client.Client, error) {
			return cachedClient{Reader: objectCache}, nil
		},
	})
	if err != nil {
		return err
	}
	reconciler := &emptyReconciler{Reader: objectCache, complete: make(chan struct{}, 1)}
	var queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	capture := source.Func(func(_ context.Context, of workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		queue = of
		return nil
	})
	usePriorityQueue := !noCopies
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		Owns(&corev1.Secret{}, builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(capture).
		WithOptions(controller.Options{UsePriorityQueue: &usePriorityQueue}).
		Complete(reconciler)
	if err != nil {
		return err
	}
	requests := make([]reconcile.Request, 0, objects)
	for _, number := range shuffled(objects) {
		requests = append(requests, reconcile.Request{NamespacedName: objectKey(number)})
	}
	go func() {
		if err := manager.Start(ctx); err != nil {
			end(err)
		}
	}()
	reconciler.settle(objects)

	// All keys are queued before the first reconcile, as in the programs in Rust.
	gate := make(chan struct{})
	reconciler.gate.Store(&gate)
	reconciler.expect(objects)
	before := cpu()
	for _, request := range requests {
		queue.Add(request)
	}
	close(gate)
	reconciler.gate.Store(nil)
	<-reconciler.complete
	measured["reconcile_ns"] = nsPer(before, objects)
	measureOwned(objectCache, reconciler, objects, measured)
	return nil
}

// measureOwned measures the events of owned objects. The predicate rejects the first ones.
func measureOwned(objectCache *memoryCache, reconciler *emptyReconciler, objects int, measured figures) {
	// The reconcile of the last event shows that all earlier events were processed.
	rejected := append(ownedSecrets(objects, 2, 1), newSecret(0, objects+2, 2))
	accepted := ownedSecrets(objects, objects+3, 3)
	for _, part := range []struct {
		figure     string
		reconciles int
		events     []*corev1.Secret
	}{{"rejected_ns", 1, rejected}, {"owned_ns", len(accepted), accepted}} {
		reconciler.expect(part.reconciles)
		before := cpu()
		for _, secret := range part.events {
			objectCache.secrets.events.Modify(secret)
		}
		<-reconciler.complete
		measured[part.figure] = nsPer(before, len(part.events))
	}
}

func measureReads(ctx context.Context, objectCache *memoryCache, objects int, measured figures) error {
	order := shuffled(objects)
	keys := make([]client.ObjectKey, objects)
	for at, number := range order {
		keys[at] = objectKey(number)
	}
	before := cpu()
	for _, key := range keys {
		var object corev1.ConfigMap
		if err := objectCache.Get(ctx, key, &object); err != nil {
			return err
		}
	}
	measured["get_ns"] = nsPer(before, objects)

	groups := make([]string, 0, 100_000)
	for _, number := range order[:min(objects, 100_000)] {
		groups = append(groups, objectGroup(number))
	}
	found := 0
	before = cpu()
	for _, value := range groups {
		var list corev1.ConfigMapList
		if err := objectCache.List(ctx, &list, client.MatchingFields{group: value}); err != nil {
			return err
		}
		found += len(list.Items)
	}
	measured["index_ns"] = nsPer(before, len(groups))
	if found == 0 || found > len(groups)*objectsPerGroup {
		return fmt.Errorf("%d queries found %d objects", len(groups), found)
	}
	return nil
}

// measureQueue measures the queue without a controller: all keys wait, and are then processed.
func measureQueue(objects int, clientGo bool, measured figures) {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minDelay, maxDelay)
	var queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	if clientGo {
		queue = workqueue.NewTypedRateLimitingQueue(limiter)
	} else {
		queue = priorityqueue.New("overhead", func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })
	}
	keys := make([]reconcile.Request, 0, objects)
	for _, number := range shuffled(objects) {
		keys = append(keys, reconcile.Request{NamespacedName: objectKey(number)})
	}
	before := cpu()
	for _, key := range keys {
		queue.Add(key)
	}
	for range keys {
		key, _ := queue.Get()
		queue.Forget(key)
		queue.Done(key)
	}
	measured["queue_ns"] = nsPer(before, objects)
}

// cachedClient is a client that only reads from the cache.
type cachedClient struct {
	client.Client
	client.Reader
}

// Get reads an object.
func (c cachedClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	return c.Reader.Get(ctx, key, object, opts...)
}

// List reads objects.
func (c cachedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.Reader.List(ctx, list, opts...)
}
