// Package replicas is one client connection over all replicas of a service. A generated client stands on a Set as on
// any connection.
//
// Calls about the same thing go to the same replica, so that what it has made or fetched for one call is found by the
// next. A replica that does not answer is passed over: its calls go to the next one in the same order for everybody.
// Two processes that see different sets, or pass over different replicas, cause double work, never a wrong byte.
//
// Every call must be idempotent: one that got no answer may have been carried out.
package replicas
