// hoistway-nri gives pods their weights by annotation, as a plugin of containerd or CRI-O: docs/howto/kubernetes.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/containerd/nri/pkg/stub"

	"hoistway/kubernetes/internal/podweight"
)

func main() {
	socket := flag.String("socket", "/var/run/nri/nri.sock", "the runtime's socket for plugins")
	root := flag.String("cgroups", "/sys/fs/cgroup", "where cgroup v2 is mounted")
	index := flag.String("index", "50", "two digits: the place among the runtime's plugins")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	plugin, err := stub.New(&podweight.Plugin{Root: *root}, stub.WithPluginName("hoistway"), stub.WithPluginIdx(*index), stub.WithSocketPath(*socket))
	if err == nil {
		// It ends when the runtime does, and is started anew by kubelet.
		err = plugin.Run(ctx)
	}
	if ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "hoistway-nri: error: the runtime is gone:", err)
		os.Exit(1)
	}
}
