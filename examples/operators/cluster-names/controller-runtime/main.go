// The operator cluster-names on controller-runtime.
package main

import (
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var setupLog = ctrl.Log.WithName("setup")

func main() {
	ctrl.SetLogger(zap.New())

	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		Cache:                         fleetCache(),
		LeaderElection:                true,
		LeaderElectionID:              "cluster-names",
		LeaderElectionNamespace:       os.Getenv("POD_NAMESPACE"),
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		setupLog.Error(err, "unable to start manager")
		os.Exit(1)
	}

	fleet := NewFleet(mgr.GetClient())
	if err := (&DeploymentReconciler{Fleet: fleet}).SetupWithManager(mgr); err != nil {
		setupLog.Error(err, "unable to create controller of Deployments")
		os.Exit(1)
	}
	if err := fleet.SetupWithManager(mgr); err != nil {
		setupLog.Error(err, "unable to create controller of clusters")
		os.Exit(1)
	}

	setupLog.Info("starting manager")
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		setupLog.Error(err, "problem running manager")
		os.Exit(1)
	}
}
