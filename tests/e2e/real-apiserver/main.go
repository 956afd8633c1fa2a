// real-apiserver holds the released Kubernetes servers (etcd, kube-apiserver,
// kube-controller-manager) in one binary, so that tests on one machine can start,
// stop and restart each part alone. Everything listens on 127.0.0.1.
package main

import (
	"flag"
	"fmt"
	"os"
)

const usage = `usage: real-apiserver COMMAND [flags]

  etcd         one etcd member without fsync
  apiserver    kube-apiserver with an admin token and an unprivileged one
  controllers  kube-controller-manager
  compact      compact etcd to its newest revision, as kube-apiserver does every 5 minutes
  all          etcd and apiserver, and controllers where asked, as child processes

"real-apiserver COMMAND -h" lists the flags of a command; apiserver, controllers
and all pass on what follows "--". A command whose stdin is a pipe stops when the
pipe is closed, so that no server outlives the test that started it.
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
		return nil, fmt.Errorf("unexpected argument %q (flags to pass on follow \"--\")", flags.Arg(0))
	}
	for _, name := range required {
		if flags.Lookup(name).Value.String() == "" {
			return nil, fmt.Errorf("--%s is required", name)
		}
	}
	return extra, nil
}
