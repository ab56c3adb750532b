package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/mount-utils"

	"hoistway/kubernetes/internal/step"
	"hoistway/kubernetes/internal/volumes"
)

// The server looks every 5 s for removed exports that are not used any more; a longer use is the caller's to end.
const patience = 15 * time.Second

// NodeGetInfo says which node this is and how many volumes it can have.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.Node, MaxVolumesPerNode: VolumesMost, AccessibleTopology: d.topology()}, nil
}

// NodeGetCapabilities says which calls there are.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	kinds := []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	}
	if d.Attacher.GrowsInUse() {
		kinds = append(kinds, csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
	}
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range kinds {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}},
		})
	}
	return answer, nil
}

// NodeStageVolume makes a volume a block device, and mounts its file system at the staging path.
func (d *Driver) NodeStageVolume(ctx context.Context, request *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	staging, capability := request.GetStagingTargetPath(), request.GetVolumeCapability()
	if request.GetVolumeId() == "" || staging == "" || capability == nil {
		return nil, status.Error(codes.InvalidArgument, "the volume_id, the staging_target_path or the volume_capability is missing")
	}
	if err := capable([]*csi.VolumeCapability{capability}); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	key, record, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	mounted := false
	if capability.GetMount() != nil {
		if mounted, err = d.isMounted(staging); err != nil {
			return nil, coded(err)
		}
	}
	// An earlier call may have died while it made the file system.
	if !record.HasData && !mounted {
		if err := d.blank(ctx, key, &record); err != nil {
			return nil, coded(err)
		}
	}
	device, err := d.attach(ctx, key, &record)
	if err != nil {
		return nil, coded(err)
	}
	if capability.GetMount() != nil {
		if err := d.mount(device, staging, mounted, capability.GetMount()); err != nil {
			return nil, coded(err)
		}
	}
	if !record.HasData {
		record.HasData = true
		if err := d.Store.Save(key, record); err != nil {
			return nil, coded(err)
		}
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// attach makes the server export the volume and returns its block device. What cannot be attached is taken out of the
// configuration again: a reload with it would be refused for all volumes.
func (d *Driver) attach(ctx context.Context, key string, record *volumes.Record) (string, error) {
	if !record.Attached {
		record.Attached = true
		if err := d.Store.Save(key, *record); err != nil {
			return "", err
		}
	}
	warnings, err := d.Configuration.Apply(ctx)
	if err == nil {
		var device string
		if device, err = d.Attacher.Attach(ctx, key); err == nil {
			return device, nil
		}
		if len(warnings) > 0 {
			err = fmt.Errorf("%w; %s", err, strings.Join(warnings, "; "))
		}
	}
	return "", errors.Join(err, d.detach(context.WithoutCancel(ctx), key, record))
}

// detach gives the block device up and takes the volume out of the configuration.
func (d *Driver) detach(ctx context.Context, key string, record *volumes.Record) error {
	if err := d.Attacher.Detach(ctx, key); err != nil {
		return err
	}
	if record.Attached {
		record.Attached = false
		if err := d.Store.Save(key, *record); err != nil {
			return err
		}
	}
	if _, err := d.Configuration.Apply(ctx); err != nil {
		return err
	}
	return d.unused(ctx, key)
}

// unused waits until the server has closed the data of a volume that it exports no more. A process may still use the block
// device: the rest of a call that died, or what a pod has left.
func (d *Driver) unused(ctx context.Context, key string) error {
	for end := time.Now().Add(patience); ; {
		_, found, err := d.Configuration.Control.Export(ctx, key)
		if err != nil || !found {
			return err
		}
		if time.Now().After(end) {
			return status.Errorf(codes.FailedPrecondition, "the block device of the volume %s is still in use", key)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// blank gives a volume new data. Of the old none may be open: the server would go on with it.
func (d *Driver) blank(ctx context.Context, key string, record *volumes.Record) error {
	if record.Attached {
		if err := d.detach(ctx, key, record); err != nil {
			return err
		}
	} else if err := d.unused(ctx, key); err != nil {
		return err
	}
	return d.Store.Blank(key, record.Bytes)
}

// mount mounts a device with a file system, which it makes if there is none. Mounted now or by an earlier call, which may
// have died then, it becomes as large as the device.
func (d *Driver) mount(device, staging string, mounted bool, wanted *csi.VolumeCapability_MountVolume) error {
	options := slices.Clone(wanted.GetMountFlags())
	if !mounted {
		kind := wanted.GetFsType()
		if kind == "" {
			kind = "ext4"
		}
		if err := os.MkdirAll(staging, 0o750); err != nil {
			return err
		}
		if err := d.Mounter.FormatAndMount(device, staging, kind, options); err != nil {
			return err
		}
		step.Done("file system mounted")
	}
	if slices.Contains(options, "ro") {
		return nil
	}
	return d.follow(device, staging)
}

// follow makes a mounted file system as large as its device.
func (d *Driver) follow(device, path string) error {
	resizer := mount.NewResizeFs(d.Mounter.Exec)
	needed, err := resizer.NeedResize(device, path)
	if err != nil || !needed {
		return err
	}
	_, err = resizer.Resize(device, path)
	return err
}

func (d *Driver) isMounted(path string) (bool, error) {
	mounted, err := d.Mounter.IsMountPoint(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}

// NodeUnstageVolume unmounts the staging path and gives the block device up.
func (d *Driver) NodeUnstageVolume(ctx context.Context, request *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	staging := request.GetStagingTargetPath()
	if request.GetVolumeId() == "" || staging == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume_id or the staging_target_path is missing")
	}
	key, record, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	// The caller made the directory and removes it.
	if mounted, err := d.isMounted(staging); err != nil {
		return nil, coded(err)
	} else if mounted {
		if err := d.Mounter.Unmount(staging); err != nil {
			return nil, coded(err)
		}
		step.Done("staging path unmounted")
	}
	return &csi.NodeUnstageVolumeResponse{}, coded(d.detach(ctx, key, &record))
}

// NodePublishVolume shows a staged volume at the path of a pod.
func (d *Driver) NodePublishVolume(ctx context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target, capability := request.GetTargetPath(), request.GetVolumeCapability()
	if request.GetVolumeId() == "" || target == "" || capability == nil {
		return nil, status.Error(codes.InvalidArgument, "the volume_id, the target_path or the volume_capability is missing")
	}
	if err := capable([]*csi.VolumeCapability{capability}); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	key, record, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	source := request.GetStagingTargetPath()
	if source == "" || !record.Attached || !record.HasData {
		return nil, status.Errorf(codes.FailedPrecondition, "the volume %s is not staged", key)
	}
	if capability.GetBlock() != nil {
		if source, err = d.Attacher.Attach(ctx, key); err != nil {
			return nil, coded(err)
		}
	} else if mounted, err := d.isMounted(source); err != nil || !mounted {
		return nil, coded(errors.Join(err, status.Errorf(codes.FailedPrecondition, "the volume %s is not mounted at %s", key, source)))
	}
	readOnly := request.GetReadonly() || capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY
	return &csi.NodePublishVolumeResponse{}, coded(d.bind(source, target, capability.GetBlock() != nil, readOnly))
}

// bind shows a directory or a device at another path.
func (d *Driver) bind(source, target string, device, readOnly bool) error {
	mounted, err := d.isMounted(target)
	if err != nil {
		return err
	}
	if !mounted {
		if err := placeFor(target, device); err != nil {
			return err
		}
		step.Done("target path made")
		if err := d.Mounter.Mount(source, target, "", []string{"bind"}); err != nil {
			return err
		}
		step.Done("target path mounted")
	}
	if !readOnly {
		return nil
	}
	// An earlier call may have died before this: it is done each time.
	if said, err := d.Mounter.Exec.Command("mount", "-o", "remount,bind,ro", target).CombinedOutput(); err != nil {
		return fmt.Errorf("%s read-only: %w: %s", target, err, said)
	}
	step.Done("target path read-only")
	return nil
}

// placeFor makes what is mounted over: a file for a device, else a directory.
func placeFor(target string, device bool) error {
	if !device {
		return os.MkdirAll(target, 0o750)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	file, err := os.OpenFile(target, os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}

// NodeUnpublishVolume takes a volume away from the path of a pod.
func (d *Driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	target := request.GetTargetPath()
	if request.GetVolumeId() == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume_id or the target_path is missing")
	}
	_, _, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	if err := mount.CleanupMountPoint(target, d.Mounter, true); err != nil {
		return nil, coded(err)
	}
	step.Done("target path removed")
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats says how full a volume is.
func (d *Driver) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	path := request.GetVolumePath()
	if request.GetVolumeId() == "" || path == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume_id or the volume_path is missing")
	}
	_, record, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	info, err := os.Stat(path)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "no volume at %s: %v", path, err)
	}
	if mounted, err := d.isMounted(path); err != nil || !mounted {
		return nil, coded(errors.Join(err, status.Errorf(codes.NotFound, "no volume at %s", path)))
	}
	if !info.IsDir() {
		return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: record.Bytes}}}, nil
	}
	var system unix.Statfs_t
	if err := unix.Statfs(path, &system); err != nil {
		return nil, coded(err)
	}
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{
			Unit:      csi.VolumeUsage_BYTES,
			Total:     int64(system.Blocks) * system.Bsize,
			Used:      int64(system.Blocks-system.Bfree) * system.Bsize,
			Available: int64(system.Bavail) * system.Bsize,
		},
		{
			Unit:      csi.VolumeUsage_INODES,
			Total:     int64(system.Files),
			Used:      int64(system.Files - system.Ffree),
			Available: int64(system.Ffree),
		},
	}}, nil
}

// NodeExpandVolume makes the file system of a mounted volume as large as its device, which has grown.
func (d *Driver) NodeExpandVolume(ctx context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	path := request.GetVolumePath()
	if request.GetVolumeId() == "" || path == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume_id or the volume_path is missing")
	}
	key, record, release, err := d.use(request.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer release()
	if request.GetCapacityRange() != nil {
		bytes, err := size(request.GetCapacityRange())
		if err != nil {
			return nil, err
		}
		if err := d.grow(ctx, key, &record, bytes); err != nil {
			return nil, coded(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, status.Errorf(codes.NotFound, "no volume at %s: %v", path, err)
	}
	if info.IsDir() {
		device, err := d.Attacher.Attach(ctx, key)
		if err != nil {
			return nil, coded(err)
		}
		if err := d.follow(device, path); err != nil {
			return nil, coded(err)
		}
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: record.Bytes}, nil
}
