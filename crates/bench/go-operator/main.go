// The program controller-runtime is the operator on controller-runtime: a manager with default options and one controller.
// It prints a message when each Website is reconciled, and its counts for each line that it reads. The messages are those of
// crates/bench/src/operators/reconciles.rs. With the argument "overhead", it measures a part of `kube-bench overhead`.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == "overhead" {
		end(runOverhead(os.Args[2]))
		return
	}
	objects := flag.Int("objects", 0, "number of Websites")
	concurrency := flag.Int("concurrency", 1, "number of concurrent reconciles")
	readYourWrites := flag.Bool("read-your-writes", false, "reads observe earlier writes")
	// controller-runtime defines the flag -kubeconfig.
	flag.Parse()
	end(run(newReconcileCounter(*objects), *concurrency, *readYourWrites))
}

func end(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "controller-runtime: %v\n", err)
		os.Exit(1)
	}
}

func run(counter *reconcileCounter, concurrency int, readYourWrites bool) error {
	ctrl.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := addWebsites(scheme); err != nil {
		return err
	}
	// The other operators have no limit on requests, and this configuration has none either.
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	// Without TLS, client-go would use the default transport of net/http, which reuses only two connections.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	options := ctrl.Options{
		Scheme: scheme,
		// The default port may be in use.
		Metrics: metricsserver.Options{BindAddress: "0"},
	}
	if readYourWrites {
		options.Client.Cache = &client.CacheOptions{EnableReadYourWritesConsistency: &readYourWrites}
	}
	manager, err := ctrl.NewManager(config, options)
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&Website{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(&reconciler{Client: manager.GetClient(), counter: counter})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go respond(counter, stop)
	return manager.Start(ctx)
}

// respond prints the counts for each line of standard input, and stops the manager when the input closes.
func respond(counter *reconcileCounter, stop func()) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		counter.printTotals()
	}
	stop()
}
