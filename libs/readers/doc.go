// Package readers knows which reader resolves which delete format of Apache Iceberg, and through which catalogs.
//
// The knowledge is data: matrix.yaml, with versions, dates and sources; users overlay their own. The package decides
// nothing from memory: Choose answers the cheapest format that all declared readers resolve, or a refusal that says
// who cannot meet whom. The gateway never has to refuse: it renders each table in two dialects, and Dialect says
// which of them a reader takes.
//
// All functions are pure; a Matrix is read-only after Parse and may be used by many goroutines.
package readers
