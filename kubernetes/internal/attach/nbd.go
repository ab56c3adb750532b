package attach

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"

	"hoistway/kubernetes/internal/step"
)

// NBD connects the kernel's client to the server and leaves the socket to the kernel, so no process has to stay. The
// kernel keeps the name of the export (/sys/block/nbdN/backend, since Linux 5.14). When the server starts anew, its
// devices fail; those of ublk wait.
type NBD struct {
	// Socket is the server's.
	Socket string
}

// Numbers of linux/nbd-netlink.h.
const (
	commandConnect    = 1
	commandDisconnect = 2

	attributeIndex       = 1
	attributeSizeBytes   = 2
	attributeBlockBytes  = 3
	attributeServerFlags = 5
	attributeSockets     = 7
	attributeBackend     = 10

	socketItem       = 1
	socketDescriptor = 1
)

// Numbers of NBD's protocol (docs/specifications/engine.md).
const (
	magicOption = 0x49484156454F5054
	magicReply  = 0x3e889045565a9
	// Fixed newstyle, no zeroes behind the answer to an export's name.
	clientFlags = 1 | 2
	optionGo    = 7
	replyAck    = 1
	replyInfo   = 3
	replyError  = 1 << 31
	infoExport  = 0
)

func (n NBD) device(export string) (string, error) {
	return withAttribute("nbd*", "backend", identifier(export))
}

// identifier tells our devices from those of other clients.
func identifier(export string) string { return "hoistway:" + export }

// Attach connects a free device of the kernel.
func (n NBD) Attach(ctx context.Context, export string) (string, error) {
	if device, err := n.device(export); device != "" || err != nil {
		return device, err
	}
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", n.Socket)
	if err != nil {
		return "", err
	}
	// The kernel has its own reference to the socket.
	defer connection.Close()
	if end, ok := ctx.Deadline(); ok {
		if err := connection.SetDeadline(end); err != nil {
			return "", err
		}
	}
	bytes, flags, err := handshake(connection, export)
	if err != nil {
		return "", fmt.Errorf("NBD export %s: %w", export, err)
	}
	// A duplicate, in blocking mode, as the kernel's client needs it.
	file, err := connection.(*net.UnixConn).File()
	if err != nil {
		return "", err
	}
	defer file.Close()
	encoder := netlink.NewAttributeEncoder()
	encoder.Uint64(attributeSizeBytes, bytes)
	encoder.Uint64(attributeBlockBytes, 512)
	encoder.Uint64(attributeServerFlags, uint64(flags))
	encoder.String(attributeBackend, identifier(export))
	encoder.Nested(attributeSockets, func(sockets *netlink.AttributeEncoder) error {
		sockets.Nested(socketItem, func(item *netlink.AttributeEncoder) error {
			item.Uint32(socketDescriptor, uint32(file.Fd()))
			return nil
		})
		return nil
	})
	answer, err := ask(commandConnect, encoder, netlink.Request)
	if err != nil {
		return "", err
	}
	decoder, err := netlink.NewAttributeDecoder(answer)
	if err != nil {
		return "", err
	}
	for decoder.Next() {
		if decoder.Type() == attributeIndex {
			step.Done("nbd device connected")
			return fmt.Sprintf("/dev/nbd%d", decoder.Uint32()), nil
		}
	}
	return "", errors.Join(errors.New("the kernel's NBD client names no device"), decoder.Err())
}

// Detach disconnects the device and waits until the kernel has forgotten it.
func (n NBD) Detach(ctx context.Context, export string) error {
	device, err := n.device(export)
	if err != nil || device == "" {
		return err
	}
	index, err := strconv.ParseUint(strings.TrimPrefix(device, "/dev/nbd"), 10, 32)
	if err != nil {
		return err
	}
	encoder := netlink.NewAttributeEncoder()
	encoder.Uint32(attributeIndex, uint32(index))
	if _, err := ask(commandDisconnect, encoder, netlink.Request|netlink.Acknowledge); err != nil {
		return err
	}
	step.Done("nbd device disconnected")
	for {
		if device, err := n.device(export); device == "" || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is in use: %w", device, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// GrowsInUse is false: an NBD client learns a size when it connects.
func (n NBD) GrowsInUse() bool { return false }

// ask sends one command to the kernel's NBD client.
func ask(command uint8, encoder *netlink.AttributeEncoder, flags netlink.HeaderFlags) ([]byte, error) {
	attributes, err := encoder.Encode()
	if err != nil {
		return nil, err
	}
	connection, err := genetlink.Dial(nil)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	family, err := connection.GetFamily("nbd")
	if err != nil {
		return nil, fmt.Errorf("the kernel has no NBD client (is the module nbd loaded?): %w", err)
	}
	message := genetlink.Message{Header: genetlink.Header{Command: command, Version: 1}, Data: attributes}
	answers, err := connection.Execute(message, family.ID, flags)
	if err != nil {
		return nil, fmt.Errorf("the kernel's NBD client: %w", err)
	}
	if len(answers) == 0 {
		return nil, nil
	}
	return answers[0].Data, nil
}

// handshake opens an export by fixed newstyle and NBD_OPT_GO; afterwards the connection is for requests.
func handshake(connection io.ReadWriter, export string) (bytes uint64, flags uint16, err error) {
	greeting := make([]byte, 18)
	if _, err := io.ReadFull(connection, greeting); err != nil {
		return 0, 0, err
	}
	if string(greeting[:8]) != "NBDMAGIC" || binary.BigEndian.Uint64(greeting[8:]) != magicOption {
		return 0, 0, errors.New("no NBD server")
	}
	request := binary.BigEndian.AppendUint32(nil, clientFlags)
	request = binary.BigEndian.AppendUint64(request, magicOption)
	request = binary.BigEndian.AppendUint32(request, optionGo)
	request = binary.BigEndian.AppendUint32(request, uint32(4+len(export)+2))
	request = binary.BigEndian.AppendUint32(request, uint32(len(export)))
	request = append(request, export...)
	// No information is asked for; that on the export comes always.
	request = binary.BigEndian.AppendUint16(request, 0)
	if _, err := connection.Write(request); err != nil {
		return 0, 0, err
	}
	for {
		head := make([]byte, 20)
		if _, err := io.ReadFull(connection, head); err != nil {
			return 0, 0, err
		}
		kind, length := binary.BigEndian.Uint32(head[12:]), binary.BigEndian.Uint32(head[16:])
		if binary.BigEndian.Uint64(head) != magicReply || length > 1<<16 {
			return 0, 0, errors.New("no answer of NBD's")
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(connection, body); err != nil {
			return 0, 0, err
		}
		switch {
		case kind&replyError != 0:
			return 0, 0, fmt.Errorf("refused with %#x: %s", kind, body)
		case kind == replyInfo && length == 12 && binary.BigEndian.Uint16(body) == infoExport:
			bytes, flags = binary.BigEndian.Uint64(body[2:]), binary.BigEndian.Uint16(body[10:])
		case kind == replyAck:
			return bytes, flags, nil
		}
	}
}
