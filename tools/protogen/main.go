// Command protogen makes the Go code of a proto file: protocompile parses it,
// the protoc-gen-go of go.mod writes the code. Nothing is installed.
//
//	go run ./tools/protogen internal/wire/controlpb control.proto >control.pb.go
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: protogen FOLDER FILE.proto")
		os.Exit(2)
	}
	code, err := generate(context.Background(), os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
	fmt.Print(code)
}

// generate returns the code of one file that imports no other.
func generate(ctx context.Context, folder, file string) (string, error) {
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{folder}},
		SourceInfoMode: protocompile.SourceInfoStandard, // comments go into the code
	}
	files, err := compiler.Compile(ctx, file)
	if err != nil {
		return "", err
	}
	request, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file},
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
	})
	if err != nil {
		return "", err
	}
	plugin := exec.CommandContext(ctx, "go", "run", "google.golang.org/protobuf/cmd/protoc-gen-go")
	plugin.Stdin, plugin.Stderr = bytes.NewReader(request), os.Stderr
	answer, err := plugin.Output()
	if err != nil {
		return "", fmt.Errorf("protoc-gen-go: %w", err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(answer, &response); err != nil {
		return "", err
	}
	if response.Error != nil {
		return "", errors.New(response.GetError())
	}
	if len(response.GetFile()) != 1 {
		return "", fmt.Errorf("%d files came of one", len(response.GetFile()))
	}
	return response.GetFile()[0].GetContent(), nil
}
