package rest

import (
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

// route is one operation of the specification.
type route struct {
	method    string
	pattern   []string // segments; {x} matches one
	operation string
	serve     func(*request) error
}

// Endpoints is what /v1/config says that the catalog can do; clients refuse everything else themselves. writes: for a
// principal that may write some table.
func Endpoints(writes bool) []string {
	const ns, table, view = "/v1/{prefix}/namespaces", "/v1/{prefix}/namespaces/{namespace}/tables", "/v1/{prefix}/namespaces/{namespace}/views"
	out := []string{
		"GET " + ns,
		"GET " + ns + "/{namespace}",
		"HEAD " + ns + "/{namespace}",
		"GET " + table,
		"GET " + table + "/{table}",
		"HEAD " + table + "/{table}",
		"GET " + table + "/{table}/credentials",
		"POST " + table + "/{table}/metrics",
		"GET " + view,
		"GET " + view + "/{view}",
		"HEAD " + view + "/{view}",
	}
	if writes {
		out = append(out, "POST "+table+"/{table}")
	}
	return out
}

func (h *Handler) table() []route {
	const (
		ns    = "namespaces/{ns}"
		table = ns + "/tables/{table}"
		view  = ns + "/views/{view}"
	)
	readOnly := refuser(http.StatusForbidden, "ForbiddenException", "The catalog is read-only: tables follow their topics")
	unsupported := refuser(http.StatusNotAcceptable, "UnsupportedOperationException", "The catalog is read-only and does not support this operation")
	absent := refuser(http.StatusNotImplemented, "UnsupportedOperationException", "The catalog does not support this operation")
	var out []route
	add := func(method, pattern, operation string, serve func(*request) error) {
		out = append(out, route{method, strings.Split(pattern, "/"), operation, serve})
	}
	add("GET", "namespaces", "listNamespaces", h.listNamespaces)
	add("POST", "namespaces", "createNamespace", unsupported)
	add("GET", ns, "loadNamespaceMetadata", h.loadNamespace)
	add("HEAD", ns, "namespaceExists", h.namespaceExists)
	add("DELETE", ns, "dropNamespace", readOnly)
	add("POST", ns+"/properties", "updateProperties", unsupported)

	add("GET", ns+"/tables", "listTables", h.listTables)
	add("POST", ns+"/tables", "createTable", readOnly)
	add("POST", ns+"/register", "registerTable", readOnly)
	add("GET", table, "loadTable", h.loadTable)
	add("HEAD", table, "tableExists", h.tableExists)
	add("POST", table, "updateTable", h.updateTable)
	add("DELETE", table, "dropTable", readOnly)
	add("POST", table+"/unregister", "unregisterTable", readOnly)
	add("GET", table+"/credentials", "loadCredentials", h.loadCredentials)
	add("POST", table+"/metrics", "reportMetrics", h.reportMetrics)
	add("GET", table+"/progress", "tableProgress", h.tableProgress) // our own
	add("POST", table+"/sign", "signRequest", absent)
	add("POST", table+"/plan", "planTableScan", unsupported)
	add("GET", table+"/plan/{plan}", "fetchPlanningResult", refuser(http.StatusNotFound, "NoSuchPlanIdException", "Plan does not exist: scans are planned by the client"))
	add("DELETE", table+"/plan/{plan}", "cancelPlanning", refuser(http.StatusNotFound, "NoSuchPlanIdException", "Plan does not exist: scans are planned by the client"))
	add("POST", table+"/tasks", "fetchScanTasks", refuser(http.StatusNotFound, "NoSuchPlanTaskException", "Plan task does not exist: scans are planned by the client"))
	add("POST", "tables/rename", "renameTable", unsupported)
	add("POST", "transactions/commit", "commitTransaction", readOnly)

	add("GET", ns+"/functions", "listFunctions", absent)
	add("GET", ns+"/functions/{function}", "loadFunction", refuser(http.StatusNotFound, "NoSuchFunctionException", "Function does not exist: the catalog has none"))

	add("GET", ns+"/views", "listViews", h.listViews)
	add("POST", ns+"/views", "createView", readOnly)
	add("POST", ns+"/register-view", "registerView", readOnly)
	add("GET", view, "loadView", noView)
	add("HEAD", view, "viewExists", noView)
	add("POST", view, "replaceView", readOnly)
	add("DELETE", view, "dropView", readOnly)
	add("POST", "views/rename", "renameView", unsupported)
	return out
}

func refuser(status int, kind, text string) func(*request) error {
	return func(*request) error { return &refusal{status, kind, text} }
}

func noView(*request) error {
	return refuse(http.StatusNotFound, "NoSuchViewException", "View does not exist: the catalog has none")
}

// dispatch finds the operation of a path whose segments are still encoded: an encoded separator or slash in a
// name is part of the name.
func (h *Handler) dispatch(q *request, segments []string) error {
	known := false
	for i := range h.routes {
		rt := &h.routes[i]
		vars, ok := match(rt.pattern, segments)
		if !ok {
			continue
		}
		known = true
		if rt.method == q.r.Method {
			q.w.Operation = rt.operation
			q.vars = vars
			return rt.serve(q)
		}
	}
	if known {
		return noMethod(q.r)
	}
	return noRoute()
}

func match(pattern, segments []string) (map[string]string, bool) {
	if len(pattern) != len(segments) {
		return nil, false
	}
	vars := map[string]string{}
	for i, p := range pattern {
		if strings.HasPrefix(p, "{") {
			if segments[i] == "" {
				return nil, false
			}
			vars[strings.Trim(p, "{}")] = segments[i]
		} else if decoded, err := url.PathUnescape(segments[i]); err != nil || decoded != p {
			return nil, false
		}
	}
	return vars, true
}

// namespace decodes the namespace of a path. Levels are separated by an encoded 0x1F; namespaces here have one
// level, so more of them name nothing.
func (q *request) namespace() (string, error) { return q.name("ns", "Namespace") }

func (q *request) table() (string, error) { return q.name("table", "Table name") }

func (q *request) name(variable, what string) (string, error) {
	name, err := url.PathUnescape(q.vars[variable])
	if err != nil || !utf8.ValidString(name) {
		return "", refuse(http.StatusBadRequest, "BadRequestException", "%s is not decodable", what)
	}
	return name, nil
}
