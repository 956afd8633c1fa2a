package main

import (
	"flag"
	"os"
	"path/filepath"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// runControllers runs kube-controller-manager with its defaults, except for leader election and its port.
func runControllers(args []string) error {
	flags := flag.NewFlagSet("controllers", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "kubeconfig of the apiserver (required)")
	key := flags.String("service-account-key", "", "key that signs tokens; the default is the key next to the kubeconfig")
	extra, err := parse(flags, args, "kubeconfig")
	if err != nil {
		return err
	}
	stopWithStdin()

	command := app.NewControllerManagerCommand()
	settings := []string{
		"--kubeconfig=" + *kubeconfig,
		"--leader-elect=false",
		"--secure-port=0",
	}
	if *key == "" {
		beside := serviceAccountKeyIn(filepath.Dir(*kubeconfig))
		if _, err := os.Stat(beside); err == nil {
			*key = beside
		}
	}
	if *key != "" {
		settings = append(settings, "--service-account-private-key-file="+*key)
	}
	command.SetArgs(append(settings, extra...))
	os.Exit(cli.Run(command))
	return nil
}
