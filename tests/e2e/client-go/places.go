package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
)

// pages lists two objects at a time.
func pages(ctx context.Context, p *program) (string, error) {
	requests := 0
	list := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		requests++
		return p.typed.CoreV1().ConfigMaps(p.namespace).List(ctx, options)
	})
	list.PageSize = 2
	var names []string
	options := metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"}
	err := list.EachListItem(ctx, options, func(object runtime.Object) error {
		names = append(names, object.(*corev1.ConfigMap).Name)
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%v in %d pages", names, requests), nil
}

// discover finds resources by their kind and by their short name.
func discover(_ context.Context, p *program) (string, error) {
	cached := memory.NewMemCacheClient(p.typed.Discovery())
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	deployment, err := mapper.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Deployment"})
	if err != nil {
		return "", err
	}
	short, err := mapper.ResourceFor(schema.GroupVersionResource{Resource: "cm"})
	if err != nil {
		return "", err
	}
	custom, err := mapper.RESTMapping(schema.GroupKind{Group: widgets.Group, Kind: "Widget"})
	if err != nil {
		return "", err
	}
	version, err := p.typed.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	inside := custom.Scope.Name() == meta.RESTScopeNameNamespace
	return fmt.Sprintf("%s, %s, %s inside namespaces: %v; Kubernetes %s.%s",
		deployment.Resource.Resource, short.Resource, custom.Resource.Resource, inside, version.Major, version.Minor), nil
}

// deletion deletes a part of a collection by a selector, and then the rest.
func deletion(ctx context.Context, p *program) (string, error) {
	client := p.typed.CoreV1().ConfigMaps(p.namespace)
	names := func() ([]string, error) {
		list, err := client.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=kube-root-ca.crt"})
		var names []string
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		return names, err
	}
	err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "relist"})
	if err != nil {
		return "", err
	}
	left, err := names()
	if err != nil {
		return "", err
	}
	foreground := metav1.DeletePropagationBackground
	err = client.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &foreground}, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	none, err := names()
	return fmt.Sprintf("%v, then %d", left, len(none)), err
}
