package main

import (
	"fmt"
	"runtime/debug"
)

// kubernetesVersion is the version of k8s.io/api that this program was built
// with, as the release is called: v0.36.3 belongs to 1.36.3.
func kubernetesVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", fmt.Errorf("built without modules")
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/api" {
			for module.Replace != nil {
				module = module.Replace
			}
			return "1" + module.Version[len("v0"):], nil
		}
	}
	return "", fmt.Errorf("k8s.io/api is not among the dependencies")
}
