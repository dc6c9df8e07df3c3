package app

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/registry/httpregistry"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	"github.com/frazil-io/frazil/services/catalog"
	"github.com/frazil-io/frazil/services/dedup"
	"github.com/frazil-io/frazil/services/materializer"
)

// kafkaDoor is a client of a cluster.
type kafkaDoor interface {
	kafkalog.Metadata
	kafkalog.Reader
	Close()
}

// kafkaRetry is how often an unreachable cluster is asked again at the start.
const kafkaRetry = time.Second

// kafka answers the one client of this process. The process is not ready before a broker has answered once.
func (a *assembly) kafka() (kafkaDoor, error) {
	if a.door != nil {
		return a.door, nil
	}
	door, err := a.cfg.openKafka(slog.New(newCalm(a.log.Handler(), time.Minute)).With("door", "kafka"))
	if err != nil {
		return nil, err
	}
	a.door = door
	a.closers = append(a.closers, func() error { door.Close(); return nil })
	a.add(a.ready.until("kafka", kafkaRetry, a.log, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, err := door.ClusterID(ctx)
		return err
	}))
	return door, nil
}

func (a *assembly) addCatalog(ctx context.Context) error {
	kafka, err := a.kafka()
	if err != nil {
		return err
	}
	dedup, err := a.connect(TargetDedup)
	if err != nil {
		return err
	}
	service, err := catalog.New(a.cfg.catalog(), catalog.Deps{
		Kafka:  kafka,
		Dedup:  dedupv1.NewDedupServiceClient(dedup),
		Now:    a.given.Clock,
		Logger: a.logger(TargetCatalog),
		Meter:  a.tel.Meters.Meter(instrumentation),
	})
	if err != nil {
		return err
	}
	return a.serve(ctx, TargetCatalog, a.cfg.Services.Listen.Catalog, service, func(r grpc.ServiceRegistrar) {
		catalogv1.RegisterCatalogServiceServer(r, service)
	})
}

func (a *assembly) addDedup(ctx context.Context) error {
	conn, err := a.connect(TargetMaterializer)
	if err != nil {
		return err
	}
	log := a.logger(TargetDedup)
	store, err := a.state(ctx, log)
	if err != nil {
		return err
	}
	service, err := dedup.New(a.cfg.dedup(), dedup.Deps{
		Store:        store,
		FS:           fsys.OS(),
		Materializer: materializerv1.NewMaterializerServiceClient(conn),
		Clock:        a.given.Clock,
		Random:       rand.Reader,
		Log:          log,
		Meter:        a.tel.Meters.Meter(instrumentation),
	})
	if err != nil {
		return err
	}
	return a.serve(ctx, TargetDedup, a.cfg.Services.Listen.Dedup, service, func(r grpc.ServiceRegistrar) {
		dedupv1.RegisterDedupServiceServer(r, service)
	})
}

func (a *assembly) addMaterializer(ctx context.Context) error {
	kafka, err := a.kafka()
	if err != nil {
		return err
	}
	dedup, err := a.connect(TargetDedup)
	if err != nil {
		return err
	}
	deps := materializer.Deps{
		Metadata: kafka,
		Reader:   kafka,
		Dedup:    dedupv1.NewDedupServiceClient(dedup),
		Files:    fsys.OS(),
		Logger:   a.logger(TargetMaterializer),
		Meter:    a.tel.Meters.Meter(instrumentation),
	}
	if a.cfg.Registry.URL != "" {
		client, err := httpregistry.New(a.cfg.registry(), nil)
		if err != nil {
			return fmt.Errorf("registry: %w", err)
		}
		deps.Registry = client
	}
	service, err := materializer.New(a.cfg.materializer(), deps)
	if err != nil {
		return err
	}
	return a.serve(ctx, TargetMaterializer, a.cfg.Services.Listen.Materializer, service, func(r grpc.ServiceRegistrar) {
		materializerv1.RegisterMaterializerServiceServer(r, service)
	})
}
