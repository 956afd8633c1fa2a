package main

import (
	"bytes"
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// syncTimeout is the time limit for the caches of a new cluster.
const syncTimeout = 60 * time.Second

// member is a cluster of the fleet, with its own caches.
type member struct {
	cluster    cluster.Cluster
	kubeconfig []byte
	stop       context.CancelFunc
}

// Fleet adds and removes the clusters whose kubeconfigs are in Secrets.
type Fleet struct {
	client.Client
	controller controller.TypedController[Request]

	mu      sync.RWMutex
	members map[string]member
}

// NewFleet creates a fleet without clusters.
func NewFleet(c client.Client) *Fleet {
	return &Fleet{Client: c, members: map[string]member{}}
}

// fleetCache selects the Secrets of the fleet.
func fleetCache() cache.Options {
	selector := labels.SelectorFromSet(labels.Set{"example.com/cluster": "true"})
	namespaces := map[string]cache.Config{"fleet": {}}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Secret{}: {Label: selector, Namespaces: namespaces},
	}}
}

// GetCluster returns a cluster, or nil.
func (f *Fleet) GetCluster(name string) cluster.Cluster {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.members[name].cluster
}

// Reconcile adds, replaces or removes the cluster of a Secret.
func (f *Fleet) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var secret corev1.Secret
	if err := f.Get(ctx, req.NamespacedName, &secret); err != nil {
		if client.IgnoreNotFound(err) == nil {
			f.remove(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	kubeconfig := secret.Data["kubeconfig"]
	f.mu.RLock()
	known, exists := f.members[req.Name]
	f.mu.RUnlock()
	if exists && bytes.Equal(known.kubeconfig, kubeconfig) {
		return ctrl.Result{}, nil
	}
	f.remove(req.Name)
	return ctrl.Result{}, f.add(ctx, req.Name, kubeconfig)
}

// add starts the caches of a cluster, and watches its objects.
func (f *Fleet) add(ctx context.Context, name string, kubeconfig []byte) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return err
	}
	added, err := cluster.New(config)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		if err := added.Start(running); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "cluster failed", "cluster", name)
		}
	}()
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	if !added.GetCache().WaitForCacheSync(syncing) {
		stop()
		return syncing.Err()
	}
	f.mu.Lock()
	f.members[name] = member{cluster: added, kubeconfig: kubeconfig, stop: stop}
	f.mu.Unlock()
	deployments := source.TypedKind(added.GetCache(), &appsv1.Deployment{}, enqueueDeployment(name))
	if err := f.controller.Watch(deployments); err != nil {
		f.remove(name)
		return err
	}
	configMaps := source.TypedKind(added.GetCache(), &corev1.ConfigMap{}, enqueueOwner(name))
	if err := f.controller.Watch(configMaps); err != nil {
		f.remove(name)
		return err
	}
	return nil
}

// remove stops the caches of a cluster.
func (f *Fleet) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, exists := f.members[name]; exists {
		known.stop()
		delete(f.members, name)
	}
}

// SetupWithManager adds the controller of the Secrets to the manager.
func (f *Fleet) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Secret{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(f)
}
