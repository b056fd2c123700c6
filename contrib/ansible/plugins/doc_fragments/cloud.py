# SPDX-License-Identifier: Apache-2.0
"""The documentation of the parameters that name a cloud, as openstack.cloud has them."""


class ModuleDocFragment:
    """The fragment ``osc_placement.placement.cloud``."""

    DOCUMENTATION = r"""
options:
  cloud:
    description:
      - Name of a cloud in C(clouds.yaml), or a dictionary with what such an entry contains.
      - Without it, E(OS_CLOUD) names the cloud, or the other E(OS_*) variables describe it.
    type: raw
  auth:
    description:
      - What the authentication plugin needs, such as C(auth_url), C(username), C(password) and
        C(project_name).
      - Not needed if O(cloud) is given.
    type: dict
  auth_type:
    description: Name of the authentication plugin, if it is not C(password).
    type: str
  region_name:
    description: Name of the region.
    type: str
  interface:
    description:
      - Interface of the endpoint in the service catalog.
      - Without it, that of C(clouds.yaml) is used, and V(public) if there is none.
    type: str
    choices: [public, internal, admin]
    aliases: [endpoint_type]
  validate_certs:
    description: Whether to verify the TLS certificates of the cloud.
    type: bool
    aliases: [verify]
  ca_cert:
    description: Path of the CA bundle that verifies them.
    type: path
    aliases: [cacert]
  client_cert:
    description: Path of a client certificate.
    type: path
    aliases: [cert]
  client_key:
    description: Path of the key of the client certificate.
    type: path
    aliases: [key]
  api_timeout:
    description: How many seconds to wait for each answer. The default is 600.
    type: int
requirements:
  - python >= 3.11
  - osc-placement >= 5.0.0
notes:
  - The requirements are those of the host on which the module runs. With C(delegate_to=localhost) or
    C(connection=local) that is the control node.
  - C(clouds.yaml) is read there too, from the current directory, C(~/.config/openstack) or
    C(/etc/openstack).
"""
