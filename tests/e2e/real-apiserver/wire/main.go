// wire prints the tables that kube-testserver requires to read protobuf bodies, and bodies to test
// them. Both come from the Go types of Kubernetes, whose tags describe the protobuf and JSON encoding
// of each field.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

const usage = `usage: wire COMMAND

  table                      the messages of all served kinds, one line for each field
  pairs [--seed N] [--each N]  objects of random content, N of each kind, one a line:
                             {"kind": ..., "protobuf": base64, "object": JSON}
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "wire: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("command is missing\n%s", usage)
	}
	types, err := servedTypes()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	switch args[0] {
	case "table":
		err = writeTable(out, types)
	case "pairs":
		flags := flag.NewFlagSet("pairs", flag.ContinueOnError)
		seed := flags.Uint64("seed", 1, "seed of the random content")
		each := flags.Int("each", 10, "objects of each kind")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		err = writePairs(out, types, *seed, *each)
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], usage)
	}
	if err != nil {
		return err
	}
	return out.Flush()
}

// types are the kinds that a request's body may be.
type types struct {
	scheme *runtime.Scheme
	kinds  []schema.GroupVersionKind
}

// Versions that kube-apiserver serves by default.
var stable = regexp.MustCompile(`^v[0-9]+$`)

// deleteOptions is registered in each group with the same content.
var deleteOptions = schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"}

func servedTypes() (types, error) {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, apiextensions.AddToScheme, apiregistration.AddToScheme,
	} {
		if err := add(all); err != nil {
			return types{}, err
		}
	}
	kinds := []schema.GroupVersionKind{deleteOptions}
	for kind := range all.AllKnownTypes() {
		if stable.MatchString(kind.Version) && isBody(kind.Kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.GroupVersion().String()+" "+a.Kind, b.GroupVersion().String()+" "+b.Kind)
	})
	return types{scheme: all, kinds: kinds}, nil
}

// isBody excludes types that occur only in queries, in responses or in etcd.
func isBody(kind string) bool {
	switch kind {
	case "APIGroup", "APIVersions", "ComponentStatus", "ConversionReview", "PodStatusResult", "RangeAllocation",
		"SerializedReference", "Status", "WatchEvent":
		return false
	}
	return !strings.HasSuffix(kind, "List") && !strings.HasSuffix(kind, "Options")
}
