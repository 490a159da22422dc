{{/*
A mirror pod stands for a static pod that its node already runs; refusing it changes nothing. Only a node may make one: the
annotation alone, which anybody can write, keeps no pod away from us.
*/}}
{{- define "placement-operator.condition.notAMirrorPod" -}}
!(
  'system:nodes' in request.userInfo.groups &&
  has(object.metadata.annotations) &&
  'kubernetes.io/config.mirror' in object.metadata.annotations
)
{{- end }}

{{/* `names_a_gpu` in shared/core/model_pods.py says the same of a pod; a property test keeps the two equal. */}}
{{- define "placement-operator.condition.namesAGpu" -}}
(
  has(object.metadata.annotations) &&
  object.metadata.annotations.exists(key,
    key.startsWith('kamiwaza.ai/') ||
    key.startsWith('nvidia.com/') ||
    key.startsWith('gpu-memory') ||
    key.startsWith('gpu-fraction')
  )
) || (
  has(object.metadata.labels) &&
  object.metadata.labels.exists(key, key.startsWith('kamiwaza.ai/'))
) || [
  object.spec.containers,
  has(object.spec.initContainers) ? object.spec.initContainers : []
].exists(containers,
  containers != null && containers.exists(container,
    (
      has(container.resources) &&
      [
        has(container.resources.limits) ? container.resources.limits : {},
        has(container.resources.requests) ? container.resources.requests : {}
      ].exists(amounts,
        amounts.exists(resource,
          resource.startsWith('kamiwaza.ai/') ||
          resource.startsWith('nvidia.com/') ||
          resource.startsWith('amd.com/') ||
          resource.startsWith('gpu.intel.com/')
        )
      )
    ) || (
      has(container.env) &&
      container.env.exists(variable,
        variable.name == 'NVIDIA_VISIBLE_DEVICES' &&
        (
          has(variable.valueFrom) ||
          !((has(variable.value) ? variable.value : '') in ['none', 'void', ''])
        )
      )
    )
  )
)
{{- end }}
