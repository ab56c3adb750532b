// Package serve writes the configuration of `hoistway serve` and asks it over its control socket
// (docs/reference/control-protocol.md).
package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"time"
)

// Patience is how long an answer may take: a device has 5 s, and a reload opens files for as long again.
const Patience = 30 * time.Second

// Refused is an answer of the server that is an error: nothing was done.
type Refused struct {
	Message string
}

func (r Refused) Error() string { return "hoistway serve refuses: " + r.Message }

// Control is the path of a control socket.
type Control string

// ask sends one request and reads the answer into `answer`.
func (c Control) ask(ctx context.Context, request map[string]any, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	connection, err := (&net.Dialer{}).DialContext(ctx, "unix", string(c))
	if err != nil {
		return fmt.Errorf("no answer of hoistway serve: %w", err)
	}
	defer connection.Close()
	end, _ := ctx.Deadline()
	if err := connection.SetDeadline(end); err != nil {
		return err
	}
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if _, err := connection.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("no answer of hoistway serve: %w", err)
	}
	reply, err := bufio.NewReader(connection).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no answer of hoistway serve: %w", err)
	}
	var outcome struct {
		Ok    json.RawMessage `json:"ok"`
		Error *string         `json:"error"`
	}
	if err := json.Unmarshal(reply, &outcome); err != nil {
		return fmt.Errorf("the answer of hoistway serve: %w", err)
	}
	if outcome.Error != nil {
		return Refused{*outcome.Error}
	}
	return json.Unmarshal(outcome.Ok, answer)
}

// Reload makes the server read its configuration again; it returns what was left out although the rest is in force.
func (c Control) Reload(ctx context.Context) (warnings []string, err error) {
	var answer struct {
		Warnings []string `json:"warnings"`
	}
	err = c.ask(ctx, map[string]any{"command": "reload"}, &answer)
	return answer.Warnings, err
}

// Export is what the server says of an export.
type Export struct {
	Name string `json:"name"`
	// Node is its local block device, or nothing.
	Node string `json:"node"`
	// Served is false of an export that was removed and is still in use.
	Served bool `json:"served"`
}

// Export returns an export, if the server still has it.
func (c Control) Export(ctx context.Context, name string) (found Export, ok bool, err error) {
	var answer struct {
		Exports []Export `json:"exports"`
	}
	if err := c.ask(ctx, map[string]any{"command": "status"}, &answer); err != nil {
		return found, false, err
	}
	at := slices.IndexFunc(answer.Exports, func(export Export) bool { return export.Name == name })
	if at < 0 {
		return found, false, nil
	}
	return answer.Exports[at], true, nil
}
