// Package podweight is an NRI plugin: it gives the control group of a pod the weight that an annotation of the pod says,
// for clusters whose volumes other drivers provision.
package podweight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
)

// Annotation is the key of a pod's annotation whose value is the weight, 1 to 10000.
const Annotation = "io.hoistway/weight"

// The files of a control group that take a weight: of io.cost, and of the elevators of our kernel module.
var files = []string{"io.weight", "io.hoist.weight"}

// Plugin handles the runtime's events.
type Plugin struct {
	// Root is where the cgroup v2 hierarchy is mounted.
	Root string
}

var (
	_ stub.SynchronizeInterface = (*Plugin)(nil)
	_ stub.RunPodInterface      = (*Plugin)(nil)
)

// Synchronize handles the pods that run when the plugin starts.
func (p *Plugin) Synchronize(_ context.Context, pods []*api.PodSandbox, _ []*api.Container) ([]*api.ContainerUpdate, error) {
	for _, pod := range pods {
		if err := p.apply(pod); err != nil {
			slog.Error("a pod has no weight", "pod", title(pod), "error", err)
		}
	}
	return nil, nil
}

// RunPodSandbox handles a new pod. One whose annotation is wrong is refused, as any wrong field of a pod; one whose
// weight cannot be set runs without it.
func (p *Plugin) RunPodSandbox(_ context.Context, pod *api.PodSandbox) error {
	err := p.apply(pod)
	var wrong wrongWeight
	if errors.As(err, &wrong) {
		return fmt.Errorf("pod %s: %w", title(pod), err)
	}
	if err != nil {
		slog.Error("a pod has no weight", "pod", title(pod), "error", err)
	}
	return nil
}

func title(pod *api.PodSandbox) string { return pod.GetNamespace() + "/" + pod.GetName() }

type wrongWeight string

func (w wrongWeight) Error() string {
	return fmt.Sprintf("the annotation %s = %q is not a whole number from 1 to 10000", Annotation, string(w))
}

// apply sets the weight of a pod that has the annotation.
func (p *Plugin) apply(pod *api.PodSandbox) error {
	text, ok := pod.GetAnnotations()[Annotation]
	if !ok {
		return nil
	}
	weight, err := strconv.ParseUint(text, 10, 32)
	if err != nil || weight < 1 || weight > 10_000 {
		return wrongWeight(text)
	}
	parent := pod.GetLinux().GetCgroupParent()
	if parent == "" {
		return errors.New("the runtime names no control group of the pod")
	}
	group := groupPath(parent)
	refusal := p.enable(group)
	set := 0
	for _, name := range files {
		file := filepath.Join(p.Root, group, name)
		// Never made: a file that is not there is one that the kernel does not have.
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := os.WriteFile(file, fmt.Appendf(nil, "default %d\n", weight), 0o644); err != nil {
			return err
		}
		set++
	}
	if set == 0 {
		return errors.Join(fmt.Errorf("%s has neither %s: the io controller is not enabled there", filepath.Join(p.Root, group), strings.Join(files, " nor ")), refusal)
	}
	slog.Info("a pod has a weight", "pod", title(pod), "weight", weight, "group", group)
	return nil
}

// groupPath is the path of a control group below the root: as the runtime gives it, or, of a slice of systemd that is
// given by its name alone, below the slices that its name says.
func groupPath(parent string) string {
	stem, isSlice := strings.CutSuffix(parent, ".slice")
	if !isSlice || strings.Contains(parent, "/") {
		return filepath.Clean("/" + parent)
	}
	path, parts := "/", strings.Split(stem, "-")
	for at := range parts {
		path = filepath.Join(path, strings.Join(parts[:at+1], "-")+".slice")
	}
	return path
}

// enable enables the io controller for all groups on the way to one.
func (p *Plugin) enable(group string) error {
	above := p.Root
	for _, part := range strings.Split(strings.Trim(group, "/"), "/") {
		control := filepath.Join(above, "cgroup.subtree_control")
		enabled, err := os.ReadFile(control)
		if err != nil {
			return err
		}
		if !strings.Contains(" "+strings.TrimSpace(string(enabled))+" ", " io ") {
			if err := os.WriteFile(control, []byte("+io"), 0o644); err != nil {
				return err
			}
		}
		above = filepath.Join(above, part)
	}
	return nil
}
