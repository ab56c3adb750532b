// Package attach makes an export of `hoistway serve` a block device of this machine. What is attached is read from the
// kernel or the server each time, so a driver that died knows it as well as before.
package attach

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"hoistway/kubernetes/internal/serve"
)

// Attacher is a way from an export to a block device. Both calls may be repeated.
type Attacher interface {
	// Attach returns the block device of an export that the server has.
	Attach(ctx context.Context, export string) (device string, err error)
	// Detach gives the block device up; it must not be in use.
	Detach(ctx context.Context, export string) error
	// GrowsInUse says that a device takes over a new size while it is mounted.
	GrowsInUse() bool
}

// Ublk leaves the device to the server: the export has `ublk = true`.
type Ublk struct {
	Control serve.Control
}

// Attach returns the node that the server made.
func (u Ublk) Attach(ctx context.Context, export string) (string, error) {
	found, _, err := u.Control.Export(ctx, export)
	if err == nil && found.Node == "" {
		err = fmt.Errorf("hoistway serve has no local block device for %s; it says why in its log (is the module ublk_drv loaded?)", export)
	}
	return found.Node, err
}

// Detach has nothing to do: the device goes with the export.
func (u Ublk) Detach(context.Context, string) error { return nil }

// GrowsInUse is true from Linux 6.16 on (UBLK_F_UPDATE_SIZE).
func (u Ublk) GrowsInUse() bool {
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 6 || (major == 6 && minor >= 16)
}

// run runs a program; its error has what the program said.
func run(ctx context.Context, program string, arguments ...string) (string, error) {
	output, err := exec.CommandContext(ctx, program, arguments...).CombinedOutput()
	said := strings.TrimSpace(string(output))
	if err != nil {
		return said, fmt.Errorf("%s %s: %w: %s", program, strings.Join(arguments, " "), err, said)
	}
	return said, nil
}

// withAttribute returns the block device below /sys/block whose attribute has this text, or nothing.
func withAttribute(pattern, attribute, text string) (string, error) {
	paths, err := filepath.Glob(filepath.Join("/sys/block", pattern, attribute))
	if err != nil {
		return "", err
	}
	for _, path := range paths {
		// A device may go meanwhile.
		if found, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(found)) == text {
			name, _, _ := strings.Cut(strings.TrimPrefix(path, "/sys/block/"), "/")
			return "/dev/" + name, nil
		}
	}
	return "", nil
}
