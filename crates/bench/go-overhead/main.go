// The program controller-runtime measures a part of `kube-bench overhead` with controller-runtime.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 2 {
		end(fmt.Errorf("expected the name of a part"))
	}
	end(runOverhead(os.Args[1]))
}

func end(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "controller-runtime: %v\n", err)
		os.Exit(1)
	}
}
