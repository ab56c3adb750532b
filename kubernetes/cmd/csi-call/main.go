// csi-call sends one call to a CSI driver, as the sidecars do: csi-call SOCKET SERVICE/METHOD [JSON]. It prints the answer
// as JSON, or the error with exit code 1.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	_ "github.com/container-storage-interface/spec/lib/go/csi" // its methods are found by name
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

func main() {
	if len(os.Args) < 3 || len(os.Args) > 4 {
		fmt.Fprintln(os.Stderr, "usage: csi-call SOCKET SERVICE/METHOD [JSON], such as Controller/CreateVolume '{\"name\": \"db\"}'")
		os.Exit(2)
	}
	text := "{}"
	if len(os.Args) == 4 {
		text = os.Args[3]
	}
	answer, err := call(os.Args[1], os.Args[2], text)
	if err != nil {
		fmt.Fprintln(os.Stderr, "csi-call:", err)
		os.Exit(1)
	}
	fmt.Println(answer)
}

func call(socket, name, text string) (string, error) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("csi.v1." + strings.ReplaceAll(name, "/", ".")))
	if err != nil {
		return "", err
	}
	method, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return "", fmt.Errorf("%s is no method", name)
	}
	request, answer := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if err := protojson.Unmarshal([]byte(text), request); err != nil {
		return "", err
	}
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := connection.Invoke(ctx, "/csi.v1."+name, request, answer, grpc.WaitForReady(true)); err != nil {
		return "", err
	}
	return protojson.Format(answer), nil
}
