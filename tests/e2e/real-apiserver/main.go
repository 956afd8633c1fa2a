// real-apiserver contains the released Kubernetes servers (etcd, kube-apiserver,
// kube-controller-manager) in one binary. Tests start, stop and restart each server
// separately. All servers listen on 127.0.0.1.
package main

import (
	"flag"
	"fmt"
	"os"
)

const usage = `usage: real-apiserver COMMAND [flags]

  etcd         a single etcd member without fsync
  apiserver    kube-apiserver with a token for an admin and a token without permissions
  controllers  kube-controller-manager
  compact      compacts etcd to its latest revision, like kube-apiserver does every 5 minutes
  all          etcd, apiserver and (optionally) controllers, as child processes

"real-apiserver COMMAND -h" lists the flags of a command; the commands apiserver,
controllers and all pass the arguments after "--" to the server. If stdin is a pipe, a
command stops when the pipe closes. Therefore no server outlives its test.
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	commands := map[string]func(args []string) error{
		"etcd":        runEtcd,
		"apiserver":   runAPIServer,
		"controllers": runControllers,
		"compact":     runCompact,
		"all":         runAll,
	}
	run, known := commands[os.Args[1]]
	if !known {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := run(os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "real-apiserver %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

// parse parses flags from args, checks the required flags, and returns the arguments after "--".
func parse(flags *flag.FlagSet, args []string, required ...string) ([]string, error) {
	var extra []string
	for i, arg := range args {
		if arg == "--" {
			args, extra = args[:i], args[i+1:]
			break
		}
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q (put flags for the server after \"--\")", flags.Arg(0))
	}
	for _, name := range required {
		if flags.Lookup(name).Value.String() == "" {
			return nil, fmt.Errorf("--%s is required", name)
		}
	}
	return extra, nil
}
