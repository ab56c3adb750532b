// hoistway-csi is the CSI driver of a node: docs/howto/kubernetes.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"hoistway/kubernetes/internal/attach"
	"hoistway/kubernetes/internal/driver"
	"hoistway/kubernetes/internal/forward"
	"hoistway/kubernetes/internal/serve"
	"hoistway/kubernetes/internal/volumes"
)

// version is that of Cargo.toml; the build sets it (-ldflags "-X main.version=...").
var version = "unreleased"

type options struct {
	node, endpoint, root, run, head, attach, tls, listen string
	configure                                            bool
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hoistway-csi: error:", err)
		os.Exit(1)
	}
}

func parse() options {
	var given options
	flag.StringVar(&given.node, "node", os.Getenv("NODE_NAME"), "name of this node")
	flag.StringVar(&given.endpoint, "endpoint", "/csi/csi.sock", "unix socket of the driver")
	flag.StringVar(&given.root, "root", "/var/lib/hoistway-csi", "directory of the volumes and of the configuration of hoistway serve")
	flag.StringVar(&given.run, "run", "/run/hoistway", "directory of the sockets of hoistway serve")
	flag.StringVar(&given.head, "serve-head", "", "file with the operator's part of that configuration: one [[device]], no [control]")
	flag.StringVar(&given.attach, "attach", "ublk", "how exports become block devices: ublk, nbd, or, for tests, fuse")
	flag.StringVar(&given.tls, "tls", "", "directory with tls.crt, tls.key and ca.crt: the drivers of all nodes then pass calls on to the volume's own")
	flag.StringVar(&given.listen, "listen", ":9809", "address for calls that other nodes pass on, with --tls")
	flag.BoolVar(&given.configure, "configure", false, "only write the configuration of hoistway serve")
	flag.Parse()
	return given
}

func run() error {
	given := parse()
	if given.node == "" || len(given.node) > driver.NodeBytesMost {
		return fmt.Errorf("--node %q: a name of 1 to %d bytes", given.node, driver.NodeBytesMost)
	}
	for _, directory := range []string{given.root, given.run} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			return err
		}
	}
	store, err := volumes.Open(filepath.Join(given.root, "volumes"))
	if err != nil {
		return err
	}
	configuration := &serve.Configuration{
		Path:    filepath.Join(given.root, "serve.toml"),
		Head:    given.head,
		Control: serve.Control(filepath.Join(given.run, "csi-control.sock")),
		Listen:  filepath.Join(given.run, "csi-nbd.sock"),
		Ublk:    given.attach == "ublk",
		Store:   store,
	}
	if given.configure {
		return configuration.Write()
	}
	attacher, err := attacher(given, configuration)
	if err != nil {
		return err
	}
	if err := store.Clean(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// What the records say may not be in force yet, if this program was killed. Without a server the file is right when
	// it starts.
	if _, err := configuration.Apply(ctx); err != nil {
		slog.Warn("hoistway serve has not taken over the configuration", "error", err)
	}
	plugin := &driver.Driver{
		Node: given.node, Version: version, Store: store, Configuration: configuration, Attacher: attacher, Mounter: driver.NewMounter(),
	}
	if given.tls != "" {
		peers, err := forward.Open(given.tls, given.listen)
		if err != nil {
			return err
		}
		plugin.Owner = peers
		go func() {
			if err := peers.Serve(ctx, plugin); err != nil {
				slog.Error("calls of other nodes are not answered", "error", err)
				stop()
			}
		}()
	}
	return plugin.Serve(ctx, given.endpoint)
}

func attacher(given options, configuration *serve.Configuration) (attach.Attacher, error) {
	switch given.attach {
	case "ublk":
		return attach.Ublk{Control: configuration.Control}, nil
	case "nbd":
		return attach.NBD{Socket: configuration.Listen}, nil
	case "fuse":
		return attach.Fuse{Socket: configuration.Listen, Directory: filepath.Join(given.run, "csi-fuse")}, nil
	default:
		return nil, errors.New("--attach: ublk, nbd or fuse")
	}
}
