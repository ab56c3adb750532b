// Package driver is the CSI driver of one node: its volumes are files below a directory of the node, served by
// `hoistway serve`, which divides the disk below them by weight.
package driver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"hoistway/kubernetes/internal/attach"
	"hoistway/kubernetes/internal/serve"
	"hoistway/kubernetes/internal/volumes"
)

// Name is the driver's name, the `provisioner` of a StorageClass.
const Name = "io.hoistway.csi"

// TopologyKey is the label whose value is the node that has a volume.
const TopologyKey = Name + "/node"

// NodeBytesMost is the longest name of a node: with the key of a volume it makes an identity of at most 128 bytes, as
// CSI limits it.
const NodeBytesMost = 64

// VolumesMost is how many volumes a node can have attached: `serve` makes 64 local block devices.
const VolumesMost = 64

// Owner connects to the driver of another node, for the calls that any node's sidecar may get. The connection is closed
// by its function.
type Owner interface {
	Controller(ctx context.Context, node string) (client csi.ControllerClient, closed func() error, err error)
}

// Driver answers the calls of CSI.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	// Node is the name of this node.
	Node string
	// Version of the program.
	Version string
	// Owner may be nil: then calls for volumes of other nodes are refused.
	Owner Owner

	Store         *volumes.Store
	Configuration *serve.Configuration
	Attacher      attach.Attacher
	Mounter       *mount.SafeFormatAndMount

	mutex sync.Mutex
	busy  map[string]bool
}

// NewMounter mounts by the programs of this machine.
func NewMounter() *mount.SafeFormatAndMount {
	return mount.NewSafeFormatAndMount(mount.New(""), exec.New())
}

// Serve answers calls at a unix socket until the context ends.
func (d *Driver) Serve(ctx context.Context, socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(Logged))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	context.AfterFunc(ctx, server.GracefulStop)
	return server.Serve(listener)
}

// Logged writes down each call that failed.
func Logged(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	if err != nil {
		slog.Warn("refused", "call", info.FullMethod, "error", err)
	}
	return answer, err
}

type passedOn struct{}

// PassedOn marks the calls that another node's driver has passed on: they are not passed on again.
func PassedOn(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return handle(context.WithValue(ctx, passedOn{}, true), request)
}

// identity is what CSI calls a volume by: its key and its node.
func (d *Driver) identity(key string) string { return key + "." + d.Node }

// split divides an identity; an empty key says that it is none of ours.
func split(identity string) (key, node string) {
	key, node, found := strings.Cut(identity, ".")
	if !found || !volumes.IsKey(key) {
		return "", ""
	}
	return key, node
}

// claim keeps other calls for a volume of this node away, until the returned function is called.
func (d *Driver) claim(key string) (release func(), err error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.busy[key] {
		return nil, status.Errorf(codes.Aborted, "another call for the volume %s is not done yet", key)
	}
	if d.busy == nil {
		d.busy = map[string]bool{}
	}
	d.busy[key] = true
	return func() {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		delete(d.busy, key)
	}, nil
}

// use claims a volume of this node and loads its record. An error has the code that CSI wants.
func (d *Driver) use(identity string) (key string, record volumes.Record, release func(), err error) {
	if identity == "" {
		return "", record, nil, status.Error(codes.InvalidArgument, "the volume_id is missing")
	}
	key, node := split(identity)
	if key == "" || node != d.Node {
		return "", record, nil, status.Errorf(codes.NotFound, "there is no volume %q on the node %s", identity, d.Node)
	}
	release, err = d.claim(key)
	if err != nil {
		return "", record, nil, err
	}
	record, err = d.Store.Load(key)
	if err != nil {
		release()
		if errors.Is(err, os.ErrNotExist) {
			return "", record, nil, status.Errorf(codes.NotFound, "there is no volume %q on the node %s", identity, d.Node)
		}
		return "", record, nil, coded(err)
	}
	return key, record, release, nil
}

// coded gives an error a code of gRPC.
func coded(err error) error {
	var refused serve.Refused
	switch {
	case err == nil:
		return nil
	case status.Code(err) != codes.Unknown:
		return err
	case errors.Is(err, volumes.ErrNoSpace):
		return status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return status.Error(codes.Aborted, err.Error())
	case errors.As(err, &refused):
		return status.Error(codes.Internal, err.Error())
	case errors.As(err, new(*net.OpError)):
		return status.Error(codes.Unavailable, err.Error())
	default:
		return status.Error(codes.Internal, err.Error())
	}
}

// capable says what is wrong with the capabilities that a volume shall have; nothing if it can have them.
func capable(wanted []*csi.VolumeCapability) error {
	for _, capability := range wanted {
		switch mode := capability.GetAccessMode().GetMode(); mode {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		default:
			return fmt.Errorf("access mode %s: a volume is used on one node, by SINGLE_NODE_WRITER (ReadWriteOnce) or SINGLE_NODE_READER_ONLY", mode)
		}
		switch {
		case capability.GetBlock() != nil:
		case capability.GetMount() != nil:
			if kind := capability.GetMount().GetFsType(); kind != "" && kind != "ext4" && kind != "xfs" {
				return fmt.Errorf("file system %q: there are ext4 and xfs", kind)
			}
		default:
			return errors.New("neither a block device nor a mount is wanted")
		}
	}
	return nil
}

// GetPluginInfo says who answers.
func (d *Driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: Name, VendorVersion: d.Version}, nil
}

// Probe always succeeds: without `serve` the calls that need it say so, and are repeated.
func (d *Driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// GetPluginCapabilities says which services there are, and whether a volume grows while it is in use.
func (d *Driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	service := func(kind csi.PluginCapability_Service_Type) *csi.PluginCapability {
		return &csi.PluginCapability{Type: &csi.PluginCapability_Service_{Service: &csi.PluginCapability_Service{Type: kind}}}
	}
	expansion := csi.PluginCapability_VolumeExpansion_OFFLINE
	if d.Attacher.GrowsInUse() {
		expansion = csi.PluginCapability_VolumeExpansion_ONLINE
	}
	return &csi.GetPluginCapabilitiesResponse{Capabilities: []*csi.PluginCapability{
		service(csi.PluginCapability_Service_CONTROLLER_SERVICE),
		service(csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS),
		{Type: &csi.PluginCapability_VolumeExpansion_{VolumeExpansion: &csi.PluginCapability_VolumeExpansion{Type: expansion}}},
	}}, nil
}
