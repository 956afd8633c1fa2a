package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// otherKinds returns the kinds with a cache, without ConfigMaps, which the controller reconciles.
func otherKinds() []client.Object {
	return []client.Object{
		&corev1.Secret{}, &corev1.Service{}, &corev1.ServiceAccount{}, &corev1.Pod{}, &appsv1.Deployment{},
		&appsv1.ReplicaSet{}, &batchv1.Job{}, &rbacv1.Role{}, &discoveryv1.EndpointSlice{}, &appsv1.StatefulSet{},
		&appsv1.DaemonSet{}, &batchv1.CronJob{}, &networkingv1.Ingress{}, &networkingv1.NetworkPolicy{},
		&policyv1.PodDisruptionBudget{}, &autoscalingv2.HorizontalPodAutoscaler{}, &corev1.PersistentVolumeClaim{},
		&corev1.ResourceQuota{}, &corev1.LimitRange{},
	}
}

// config returns a configuration without a limit on requests.
func config() (*rest.Config, error) {
	ctrl.SetLogger(logr.Discard())
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	// Without TLS, client-go would use the default transport of net/http, which reuses only two connections.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	return config, nil
}

// syncKinds syncs the caches of twenty kinds.
func syncKinds(ctx context.Context, perKind int) error {
	config, err := config()
	if err != nil {
		return err
	}
	caches, err := cache.New(config, cache.Options{})
	if err != nil {
		return err
	}
	for _, kind := range append(otherKinds(), &corev1.ConfigMap{}) {
		if _, err := caches.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	if err := startCaches(ctx, caches); err != nil {
		return err
	}
	var maps corev1.ConfigMapList
	if err := caches.List(ctx, &maps); err != nil {
		return err
	}
	if len(maps.Items) != perKind {
		return fmt.Errorf("the cache contains %d ConfigMaps", len(maps.Items))
	}
	return nil
}

func startCaches(ctx context.Context, caches cache.Cache) error {
	// The caches run until this program ends.
	running := context.WithoutCancel(ctx)
	go func() {
		if err := caches.Start(running); err != nil {
			end(err)
		}
	}()
	if !caches.WaitForCacheSync(ctx) {
		return fmt.Errorf("the caches did not sync")
	}
	return nil
}

// startManager starts a manager with caches of twenty kinds, and waits for its first reconcile.
func startManager(ctx context.Context) error {
	config, err := config()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	none := func(context.Context, client.Object) []reconcile.Request { return nil }
	first := make(chan struct{})
	var once sync.Once
	build := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{})
	for _, kind := range otherKinds() {
		build = build.Watches(kind, handler.EnqueueRequestsFromMapFunc(none))
	}
	err = build.Complete(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		once.Do(func() { close(first) })
		return reconcile.Result{}, nil
	}))
	if err != nil {
		return err
	}
	running := context.WithoutCancel(ctx)
	go func() {
		if err := manager.Start(running); err != nil {
			end(err)
		}
	}()
	<-first
	return nil
}

// syncNamespaces syncs a cache for each namespace.
func syncNamespaces(ctx context.Context, namespaces int) error {
	config, err := config()
	if err != nil {
		return err
	}
	selected := make(map[string]cache.Config, namespaces)
	for number := range namespaces {
		selected[fmt.Sprintf("team-%05d", number)] = cache.Config{}
	}
	caches, err := cache.New(config, cache.Options{DefaultNamespaces: selected})
	if err != nil {
		return err
	}
	informer, err := caches.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	var handled atomic.Int64
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(any) { handled.Add(1) }})
	if err != nil {
		return err
	}
	if err := startCaches(ctx, caches); err != nil {
		return err
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("the handler did not sync")
	}
	if handled.Load() != int64(namespaces) {
		return fmt.Errorf("the handler was called %d times", handled.Load())
	}
	return nil
}
