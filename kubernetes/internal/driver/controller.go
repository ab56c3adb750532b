package driver

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"hoistway/kubernetes/internal/parameters"
	"hoistway/kubernetes/internal/serve"
	"hoistway/kubernetes/internal/volumes"
)

// defaultBytes is the size of a volume for which none is asked for.
const defaultBytes = 1 << 30

// ControllerGetCapabilities says which calls there are.
func (d *Driver) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	answer := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
	} {
		answer.Capabilities = append(answer.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}},
		})
	}
	return answer, nil
}

// size is the number of bytes that a volume gets: what is asked for in whole granules, within the limit.
func size(wanted *csi.CapacityRange) (int64, error) {
	required, limit := wanted.GetRequiredBytes(), wanted.GetLimitBytes()
	bytes := required
	if bytes == 0 {
		bytes = defaultBytes
		if limit != 0 {
			bytes = min(bytes, limit-limit%volumes.Granule)
		}
	}
	if required < 0 || limit < 0 || bytes <= 0 || bytes > 1<<60 {
		return 0, status.Errorf(codes.OutOfRange, "a volume has from %d to %d bytes, in whole MiB", volumes.Granule, int64(1)<<60)
	}
	bytes = (bytes + volumes.Granule - 1) / volumes.Granule * volumes.Granule
	if limit != 0 && bytes > limit {
		return 0, status.Errorf(codes.OutOfRange, "a volume of at least %d and at most %d bytes in whole MiB does not exist", required, limit)
	}
	return bytes, nil
}

// CreateVolume makes a volume of this node.
func (d *Driver) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if request.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "the name is missing")
	}
	if len(request.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the volume_capabilities are missing")
	}
	if err := capable(request.GetVolumeCapabilities()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if request.GetVolumeContentSource() != nil {
		return nil, status.Error(codes.InvalidArgument, "volumes are made empty: there are no snapshots and no clones")
	}
	set, err := checked(request.GetParameters(), request.GetMutableParameters())
	if err != nil {
		return nil, err
	}
	bytes, err := size(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	if !d.accessible(request.GetAccessibilityRequirements()) {
		return nil, status.Errorf(codes.ResourceExhausted, "the volume is wanted on another node than %s", d.Node)
	}
	key := volumes.Key(request.GetName())
	release, err := d.claim(key)
	if err != nil {
		return nil, err
	}
	defer release()
	record, err := d.Store.Load(key)
	switch {
	case errors.Is(err, os.ErrNotExist):
		record = volumes.Record{Name: request.GetName(), Bytes: bytes, Parameters: set}
		if err := d.Store.Create(key, record); err != nil {
			return nil, coded(err)
		}
	case err != nil:
		return nil, coded(err)
	case record.Name != request.GetName():
		return nil, status.Errorf(codes.AlreadyExists, "the volume %s has the name %q", key, record.Name)
	case !fits(record.Bytes, request.GetCapacityRange()):
		return nil, status.Errorf(codes.AlreadyExists, "the volume %q exists with %d bytes", record.Name, record.Bytes)
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId:           d.identity(key),
		CapacityBytes:      record.Bytes,
		AccessibleTopology: []*csi.Topology{d.topology()},
	}}, nil
}

// checked reads parameters and mutable parameters; the latter count where both are given.
func checked(given, changed map[string]string) (parameters.Set, error) {
	set, err := parameters.Check(given)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	changes, err := parameters.Check(changed)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return set.With(changes), nil
}

func fits(bytes int64, wanted *csi.CapacityRange) bool {
	return bytes >= wanted.GetRequiredBytes() && (wanted.GetLimitBytes() == 0 || bytes <= wanted.GetLimitBytes())
}

func (d *Driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{TopologyKey: d.Node}}
}

// accessible says whether this node is among those that a volume may be on.
func (d *Driver) accessible(wanted *csi.TopologyRequirement) bool {
	for _, topology := range wanted.GetRequisite() {
		if node, ok := topology.GetSegments()[TopologyKey]; !ok || node == d.Node {
			return true
		}
	}
	return len(wanted.GetRequisite()) == 0
}

// DeleteVolume removes a volume and its data.
func (d *Driver) DeleteVolume(ctx context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume_id is missing")
	}
	if d.elsewhere(request.GetVolumeId()) {
		return passOn(ctx, d, request, csi.ControllerClient.DeleteVolume)
	}
	key, _ := split(request.GetVolumeId())
	if key == "" {
		return &csi.DeleteVolumeResponse{}, nil
	}
	release, err := d.claim(key)
	if err != nil {
		return nil, err
	}
	defer release()
	record, err := d.Store.Load(key)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, coded(err)
	}
	if record.Attached {
		return nil, status.Errorf(codes.FailedPrecondition, "the volume %s is in use", key)
	}
	return &csi.DeleteVolumeResponse{}, coded(d.Store.Delete(key))
}

// elsewhere says whether an identity is that of a volume of another node.
func (d *Driver) elsewhere(identity string) bool {
	key, node := split(identity)
	return key != "" && node != d.Node
}

// passOn lets the driver of the volume's node do a call.
func passOn[Request interface{ GetVolumeId() string }, Answer any](
	ctx context.Context, d *Driver, request Request,
	call func(csi.ControllerClient, context.Context, Request, ...grpc.CallOption) (Answer, error),
) (none Answer, err error) {
	_, node := split(request.GetVolumeId())
	if d.Owner == nil || ctx.Value(passedOn{}) != nil {
		return none, status.Errorf(codes.FailedPrecondition, "the volume is on the node %q, and this is the driver of %s without a way there (--tls)", node, d.Node)
	}
	client, closed, err := d.Owner.Controller(ctx, node)
	if err != nil {
		return none, status.Errorf(codes.Unavailable, "the driver of the node %q: %v", node, err)
	}
	defer func() { _ = closed() }()
	return call(client, ctx, request)
}

// ValidateVolumeCapabilities confirms what a volume can do.
func (d *Driver) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if request.GetVolumeId() == "" || len(request.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "the volume_id or the volume_capabilities are missing")
	}
	_, _, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	release()
	if err := capable(request.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	if _, err := checked(request.GetParameters(), request.GetMutableParameters()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: err.Error()}, nil
	}
	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext:      request.GetVolumeContext(),
		VolumeCapabilities: request.GetVolumeCapabilities(),
		Parameters:         request.GetParameters(),
		MutableParameters:  request.GetMutableParameters(),
	}}, nil
}

// GetCapacity says how many bytes new volumes of this node may have.
func (d *Driver) GetCapacity(_ context.Context, request *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if topology := request.GetAccessibleTopology(); topology != nil && !d.accessible(&csi.TopologyRequirement{Requisite: []*csi.Topology{topology}}) {
		return &csi.GetCapacityResponse{}, nil
	}
	bytes, err := d.Store.Available()
	return &csi.GetCapacityResponse{AvailableCapacity: bytes}, coded(err)
}

// ControllerExpandVolume makes the data of a volume longer. A file system follows when it is mounted, or by
// NodeExpandVolume where devices grow in use.
func (d *Driver) ControllerExpandVolume(ctx context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if request.GetVolumeId() == "" || request.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "the volume_id or the capacity_range is missing")
	}
	if d.elsewhere(request.GetVolumeId()) {
		return passOn(ctx, d, request, csi.ControllerClient.ControllerExpandVolume)
	}
	bytes, err := size(request.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	key, record, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	if record.Bytes < bytes && record.Attached && !d.Attacher.GrowsInUse() {
		return nil, status.Errorf(codes.FailedPrecondition,
			"the volume %s is in use, and its block device cannot grow meanwhile (ublk can from Linux 6.16 on): end its pods", key)
	}
	if err := d.grow(ctx, key, &record, bytes); err != nil {
		return nil, coded(err)
	}
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes:         record.Bytes,
		NodeExpansionRequired: record.Attached && request.GetVolumeCapability().GetBlock() == nil,
	}, nil
}

// grow makes a volume at least this large. Repeated, it does what was left.
func (d *Driver) grow(ctx context.Context, key string, record *volumes.Record, bytes int64) error {
	if err := d.Store.Grow(key, bytes); err != nil {
		return err
	}
	if record.Bytes < bytes {
		record.Bytes = bytes
		if err := d.Store.Save(key, *record); err != nil {
			return err
		}
	}
	if !record.Attached {
		return nil
	}
	_, err := d.Configuration.Apply(ctx)
	return err
}

// ControllerModifyVolume changes weight and limits, at once where the volume is in use.
func (d *Driver) ControllerModifyVolume(ctx context.Context, request *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if request.GetVolumeId() == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume_id is missing")
	}
	changes, err := checked(nil, request.GetMutableParameters())
	if err != nil {
		return nil, err
	}
	if d.elsewhere(request.GetVolumeId()) {
		return passOn(ctx, d, request, csi.ControllerClient.ControllerModifyVolume)
	}
	key, record, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	before := record.Parameters
	record.Parameters = before.With(changes)
	if err := d.Store.Save(key, record); err != nil || !record.Attached {
		return &csi.ControllerModifyVolumeResponse{}, coded(err)
	}
	_, err = d.Configuration.Apply(ctx)
	if errors.As(err, new(serve.Refused)) {
		// A reload with them would be refused for all volumes.
		record.Parameters = before
		err = errors.Join(fmt.Errorf("the parameters of %s: %w", key, err), d.Store.Save(key, record), d.Configuration.Write())
	}
	return &csi.ControllerModifyVolumeResponse{}, coded(err)
}
