// The Database webhooks on controller-runtime.
package main

import (
	"flag"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	examplev1 "kube-informer.examples/operators/database/controller-runtime/api/v1"
	examplev1beta1 "kube-informer.examples/operators/database/controller-runtime/api/v1beta1"
)

var (
	scheme   = runtime.NewScheme()
	setupLog = ctrl.Log.WithName("setup")
)

func init() {
	utilruntime.Must(examplev1.AddToScheme(scheme))
	utilruntime.Must(examplev1beta1.AddToScheme(scheme))
}

func main() {
	port := flag.Int("webhook-port", 9443, "The port of the webhooks.")
	certDir := flag.String("cert-dir", "/certs", "The folder with tls.crt and tls.key.")
	flag.Parse()
	ctrl.SetLogger(zap.New())

	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:        scheme,
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Port: *port, CertDir: *certDir}),
	})
	if err != nil {
		setupLog.Error(err, "unable to start manager")
		os.Exit(1)
	}

	if err := SetupDatabaseWebhooks(mgr); err != nil {
		setupLog.Error(err, "unable to create webhooks")
		os.Exit(1)
	}

	setupLog.Info("starting manager")
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		setupLog.Error(err, "problem running manager")
		os.Exit(1)
	}
}
