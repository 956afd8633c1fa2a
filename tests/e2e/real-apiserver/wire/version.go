package main

import (
	"fmt"
	"runtime/debug"
)

// kubernetesVersion returns the Kubernetes release of the k8s.io/api dependency: v0.36.3 belongs to 1.36.3.
func kubernetesVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("read the Kubernetes version: binary was built without modules")
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" {
			for module.Replace != nil {
				module = module.Replace
			}
			return "1" + module.Version[len("v0"):], nil
		}
	}
	return "", fmt.Errorf("read the Kubernetes version: k8s.io/api is not a dependency")
}
