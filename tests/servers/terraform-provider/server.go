package main

import (
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// server answers what Terraform asks a provider. What it does not answer, Terraform 1.11 does not ask for.
type server struct {
	tfprotov5.ProviderServer
	schemas *tfprotov5.GetProviderSchemaResponse
	cloud   cloud
}

func newServer(file *schemaFile, cloud cloud) (*server, error) {
	schemas := &tfprotov5.GetProviderSchemaResponse{
		ResourceSchemas:   map[string]*tfprotov5.Schema{},
		DataSourceSchemas: map[string]*tfprotov5.Schema{},
	}
	for name, level := range file.Schemas {
		block, err := level.schema(name == "provider")
		if err != nil {
			return nil, err
		}
		schema := &tfprotov5.Schema{Block: block}
		if data, isData := strings.CutPrefix(name, "data."); isData {
			schemas.DataSourceSchemas[data] = schema
		} else if name == "provider" {
			schemas.Provider = schema
		} else {
			schemas.ResourceSchemas[name] = schema
		}
	}
	return &server{schemas: schemas, cloud: cloud}, nil
}

func (s *server) GetMetadata(context.Context, *tfprotov5.GetMetadataRequest) (*tfprotov5.GetMetadataResponse, error) {
	metadata := &tfprotov5.GetMetadataResponse{}
	for name := range s.schemas.ResourceSchemas {
		metadata.Resources = append(metadata.Resources, tfprotov5.ResourceMetadata{TypeName: name})
	}
	for name := range s.schemas.DataSourceSchemas {
		metadata.DataSources = append(metadata.DataSources, tfprotov5.DataSourceMetadata{TypeName: name})
	}
	return metadata, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov5.GetProviderSchemaRequest) (*tfprotov5.GetProviderSchemaResponse, error) {
	return s.schemas, nil
}

func (s *server) PrepareProviderConfig(_ context.Context, request *tfprotov5.PrepareProviderConfigRequest) (*tfprotov5.PrepareProviderConfigResponse, error) {
	return &tfprotov5.PrepareProviderConfigResponse{PreparedConfig: request.Config}, nil
}

func (s *server) ConfigureProvider(context.Context, *tfprotov5.ConfigureProviderRequest) (*tfprotov5.ConfigureProviderResponse, error) {
	return &tfprotov5.ConfigureProviderResponse{}, nil
}

func (s *server) StopProvider(context.Context, *tfprotov5.StopProviderRequest) (*tfprotov5.StopProviderResponse, error) {
	return &tfprotov5.StopProviderResponse{}, nil
}

func (s *server) ValidateResourceTypeConfig(context.Context, *tfprotov5.ValidateResourceTypeConfigRequest) (*tfprotov5.ValidateResourceTypeConfigResponse, error) {
	return &tfprotov5.ValidateResourceTypeConfigResponse{}, nil
}

func (s *server) ValidateDataSourceConfig(context.Context, *tfprotov5.ValidateDataSourceConfigRequest) (*tfprotov5.ValidateDataSourceConfigResponse, error) {
	return &tfprotov5.ValidateDataSourceConfigResponse{}, nil
}

func (s *server) UpgradeResourceState(_ context.Context, request *tfprotov5.UpgradeResourceStateRequest) (*tfprotov5.UpgradeResourceStateResponse, error) {
	kind := s.schemas.ResourceSchemas[request.TypeName].ValueType()
	state, err := request.RawState.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	upgraded, err := tfprotov5.NewDynamicValue(kind, state)
	return &tfprotov5.UpgradeResourceStateResponse{UpgradedState: &upgraded}, err
}

func (s *server) ReadResource(_ context.Context, request *tfprotov5.ReadResourceRequest) (*tfprotov5.ReadResourceResponse, error) {
	kind := s.schemas.ResourceSchemas[request.TypeName].ValueType()
	found, err := s.cloud.read(string(request.Private), kind)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov5.NewDynamicValue(kind, found)
	return &tfprotov5.ReadResourceResponse{NewState: &state, Private: request.Private}, err
}

func (s *server) PlanResourceChange(_ context.Context, request *tfprotov5.PlanResourceChangeRequest) (*tfprotov5.PlanResourceChangeResponse, error) {
	response := &tfprotov5.PlanResourceChangeResponse{PlannedState: request.ProposedNewState, PlannedPrivate: request.PriorPrivate}
	schema := s.schemas.ResourceSchemas[request.TypeName]
	kind := schema.ValueType()
	proposed, err := request.ProposedNewState.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	prior, err := request.PriorState.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	if proposed.IsNull() || !prior.IsNull() {
		// What the cloud has chosen once stays.
		return response, nil
	}
	unknown := func(_ string, kind tftypes.Type) (tftypes.Value, error) {
		return tftypes.NewValue(kind, tftypes.UnknownValue), nil
	}
	planned, err := fill(schema.Block, proposed, unknown)
	if err != nil {
		return nil, err
	}
	value, err := tfprotov5.NewDynamicValue(kind, planned)
	response.PlannedState = &value
	return response, err
}

func (s *server) ApplyResourceChange(_ context.Context, request *tfprotov5.ApplyResourceChangeRequest) (*tfprotov5.ApplyResourceChangeResponse, error) {
	schema := s.schemas.ResourceSchemas[request.TypeName]
	kind := schema.ValueType()
	planned, err := request.PlannedState.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	object := string(request.PlannedPrivate)
	if planned.IsNull() {
		return &tfprotov5.ApplyResourceChangeResponse{NewState: request.PlannedState}, s.cloud.remove(object)
	}
	made, err := s.cloud.answer(request.TypeName, schema.Block, planned)
	if err != nil {
		return nil, err
	}
	if object == "" {
		object = s.cloud.newObject(request.TypeName)
	}
	if err := s.cloud.write(object, made); err != nil {
		return nil, err
	}
	state, err := tfprotov5.NewDynamicValue(kind, made)
	return &tfprotov5.ApplyResourceChangeResponse{
		NewState: &state,
		Private:  []byte(object),
		// As the real providers say: the cloud may answer something else than what was asked for.
		UnsafeToUseLegacyTypeSystem: true,
	}, err
}

func (s *server) ReadDataSource(_ context.Context, request *tfprotov5.ReadDataSourceRequest) (*tfprotov5.ReadDataSourceResponse, error) {
	schema := s.schemas.DataSourceSchemas[request.TypeName]
	kind := schema.ValueType()
	config, err := request.Config.Unmarshal(kind)
	if err != nil {
		return nil, err
	}
	found, err := s.cloud.answer("data."+request.TypeName, schema.Block, config)
	if err != nil {
		return nil, err
	}
	state, err := tfprotov5.NewDynamicValue(kind, found)
	return &tfprotov5.ReadDataSourceResponse{State: &state}, err
}
