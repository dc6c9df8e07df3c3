package app

import "fmt"

// Target says which services a process runs.
type Target string

// The targets.
const (
	TargetAll          Target = "all"
	TargetEdge         Target = "edge"
	TargetCatalog      Target = "catalog"
	TargetMaterializer Target = "materializer"
	TargetDedup        Target = "dedup"
)

// ParseTarget reads a target's name.
func ParseTarget(name string) (Target, error) {
	switch t := Target(name); t {
	case TargetAll, TargetEdge, TargetCatalog, TargetMaterializer, TargetDedup:
		return t, nil
	}
	return "", fmt.Errorf("target %q: all, edge, catalog, materializer or dedup", name)
}

// runs says whether a process of this target runs a service.
func (t Target) runs(service Target) bool { return t == TargetAll || t == service }
