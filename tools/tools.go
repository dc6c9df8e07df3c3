// Package tools is the list of commands on objects and tables that the frazil binary offers beside its services.
//
// Each command is a package of this module. They share Frazil's libraries and never a service's insides.
package tools

import (
	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/drain"
	"github.com/frazil-io/frazil/tools/inspect"
	"github.com/frazil-io/frazil/tools/lint"
	"github.com/frazil-io/frazil/tools/probe"
	"github.com/frazil-io/frazil/tools/progress"
	"github.com/frazil-io/frazil/tools/readers"
	"github.com/frazil-io/frazil/tools/tag"
)

// Commands answers all commands, sorted by name.
func Commands() []command.Command {
	return []command.Command{drain.Command(), inspect.Command(), lint.Command(), probe.Command(), progress.Command(), readers.Command(), tag.Command()}
}
