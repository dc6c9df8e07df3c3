// Command frazil is the gateway: all services in one process, or one of them, and the tools.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/tools/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Main(ctx, os.Args[1:], os.Environ(), command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
