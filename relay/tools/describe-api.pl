#!/usr/bin/env perl
# describe-api.pl: writes the OpenAPI and AsyncAPI documents from the tables of the relay and their descriptions.
#
#   relay/tools/describe-api.pl              a C source with both documents, and their ETags
#   relay/tools/describe-api.pl openapi      only this document (or asyncapi)
#
# The tables in C decide which routes, frames and fields exist: GATE_ROUTES of relay/gate/routes.c, FORMS of
# relay/wire/client_message.c, the frames that the relay writes, and decoder/protocol/envelope.h. The files in
# relay/gate/api/ add what C does not contain: summaries, bodies and responses. A part without a description, or a
# description without a part, is an error. "@NAME" in a description is a macro, an enum or a list of words in C.
#
# JSON::PP is part of Perl, which is in each installation of postgresql-server-dev and dpkg-dev.
use strict;
use warnings;

use Digest::SHA qw(sha256_hex);
use File::Basename qw(dirname);
use JSON::PP ();

chdir dirname(__FILE__) . '/../..' or die "could not change to the checkout: $!\n";

my $json = JSON::PP->new->utf8->canonical->allow_nonref;
my @errors;

sub slurp
{
    my ($path) = @_;
    open my $file, '<', $path or die "could not read $path: $!\n";
    local $/ = undef;
    return <$file> // '';
}

sub described
{
    my ($name) = @_;
    my $path = "relay/gate/api/$name.json";
    my $value = eval { $json->decode(slurp($path)) } or die "$path: $@";
    return $value;
}

# Reports the names that only one of the two lists has.
sub compare
{
    my ($what, $in_c, $in_description, $c_file, $description) = @_;
    my %c         = map { $_ => 1 } @$in_c;
    my %described = map { $_ => 1 } @$in_description;
    push @errors, "$description: no description of the $what \"$_\" of $c_file" for grep { !$described{$_} } sort keys %c;
    push @errors, "$description: the $what \"$_\" does not exist in $c_file"    for grep { !$c{$_} } sort keys %described;
    return;
}

# ---- what C defines

# Returns the text between `$start` and the end of its block.
sub block
{
    my ($path, $start) = @_;
    my ($text) = slurp($path) =~ /\Q$start\E(.*?)^\s*\};/ms or die "$path: no \"$start\"\n";
    $text =~ s{/\*.*?\*/}{}gs;
    return $text;
}

# Returns the routes: method, path with {id} (a UUID) or {user}, and the members of the table's entry.
sub routes
{
    my @routes;
    my $table = block('relay/gate/routes.c', 'const struct gate_route GATE_ROUTES[] = {');
    my %fields = slurp('relay/gate/routes.c') =~ /^#define (\w+) *\\\n((?:[^\n]*\\\n)*[^\n]*)/mg;
    s/\\\n//g for values %fields;
    $table =~ s/\b([A-Z_]+)(?=\})/$fields{$1} \/\/ $1/ge; # fields of several routes
    while ($table =~ /\{((?:[^{}])*)\}/g)
    {
        my $entry = $1;
        my %route = $entry =~ /\.(\w+)\s*=\s*("[^"]*"|[^,]+?)\s*(?=,\s*\.|,?\s*$)/g;
        s/^"|"$//g for values %route;
        next if $route{path} eq 'NULL';
        $route{template} = $route{path} . (defined $route{suffix} ? "{id}$route{suffix}"
            : defined $route{user_suffix} ? "{user}$route{user_suffix}" : '');
        $route{method} = !$route{body_max} ? 'GET' : $route{is_delete} ? 'DELETE' : 'POST';
        $route{key} = "$route{method} $route{template}";
        push @routes, \%route;
    }
    return @routes;
}

# Returns the fields of each client frame, without `t`.
sub client_frames
{
    my %frames;
    my $table = block('relay/wire/client_message.c', 'static const struct client_message_form FORMS[] = {');
    while ($table =~ /\{"(\w+)",\s*\w+,\s*\{([^{}]*)\}/g)
    {
        my ($name, $fields) = ($1, $2);
        $frames{$name} = [ grep { $_ ne 't' } $fields =~ /"(\w+)"/g ];
    }
    return \%frames;
}

# Returns the types of the frames that the relay writes.
sub relay_frames
{
    my %found;
    for my $file (glob 'relay/*/*.c relay/*/*/*.c')
    {
        $found{$_} = 1 for slurp($file) =~ /\{\\"t\\":\\"(\w+)\\"/g;
    }
    return [ sort keys %found ];
}

# Returns the paths of a notification's members, such as routing.audience.type.
sub envelope_members
{
    my $header = slurp('decoder/protocol/envelope.h');
    my $example = '';
    while ($header =~ /^#define ENVELOPE_(\w+)_TEXT "((?:[^"\\]|\\.)*)"/mg)
    {
        my ($name, $text) = ($1, $2);
        $text =~ s/\\"/"/g;
        $example .= $text . ($name eq 'END' ? '' : '0');
    }
    my $document = eval { $json->decode($example) } or die "decoder/protocol/envelope.h: not one JSON document: $example\n";
    return members_of($document);
}

sub members_of
{
    my ($value, $prefix) = @_;
    return [] unless ref $value eq 'HASH';
    return [ map { my $path = defined $prefix ? "$prefix.$_" : $_; ($path, @{ members_of($value->{$_}, $path) }) } sort keys %$value ];
}

# Returns the paths of the properties that a schema lists, without those below a $ref.
sub properties_of
{
    my ($schema, $prefix) = @_;
    my $properties = $schema->{properties} // {};
    return [ map { my $path = defined $prefix ? "$prefix.$_" : $_; ($path, @{ properties_of($properties->{$_}, $path) }) } sort keys %$properties ];
}

my $constants = join "\n", map { slurp($_) } qw(decoder/protocol/limits.h decoder/protocol/version.h
    decoder/protocol/envelope.c relay/wire/codes.h relay/wire/client_message.h);

# Returns the value of a macro, the words of a list, or the numbers of an enum.
sub constant
{
    my ($name) = @_;
    return 0 + $1 if $constants =~ /^#define $name (\d+)\b/m;
    return $1     if $constants =~ /^#define $name "([^"]*)"/m;
    return constant($1) if $constants =~ /^#define $name ([A-Z_]+)$/m;
    return [ $1 =~ /"([^"]*)"/g ] if $constants =~ /\*const $name\[\] = \{(.*?)\}/s;
    return [ map { 0 + $_ } $1 =~ /= (\d+)/g ] if $constants =~ /enum $name \{(.*?)\}/s;
    push @errors, "relay/gate/api: unknown constant \"\@$name\"";
    return 0;
}

sub expand
{
    my ($value) = @_;
    return { map { $_ => expand($value->{$_}) } keys %$value } if ref $value eq 'HASH';
    return [ map { expand($_) } @$value ] if ref $value eq 'ARRAY';
    return constant($1) if defined $value && !ref $value && $value =~ /^\@(\w+)$/;
    return $value;
}

# ---- schemas

sub ref_to { return { '$ref' => "#/components/schemas/$_[0]" } }

# The schema of a frame. Unknown fields of a client's frame are errors, except in "connect".
sub frame_schema
{
    my ($side, $name, $frame) = @_;
    my %schema = %$frame;
    delete $schema{summary};
    $schema{type} = 'object';
    $schema{description} = $frame->{summary};
    $schema{properties} = { %{ $frame->{properties} }, t => { const => $name } };
    $schema{required} = [ 't', @{ $frame->{required} // [] } ];
    $schema{additionalProperties} //= JSON::PP::false if $side eq 'client';
    return \%schema;
}

# ---- OpenAPI

my %HEADERS = (
    'Clairon-Pos'          => 'cursor of the next poll',
    'ETag'                 => 'version of the document',
    'Idempotency-Replayed' => 'true for a repeat',
    'Location'             => 'path of the trace',
    'Preference-Applied'   => 'wait, if the relay waited',
    'Retry-After'          => 'seconds',
);

my %CLAIMS = (
    GATE_CLAIM_NONE              => [],
    GATE_CLAIM_PUBLISH           => ['publish'],
    GATE_CLAIM_ADMIN             => ['admin'],
    GATE_CLAIM_ADMIN_AND_PUBLISH => [ 'admin', 'publish' ],
    GATE_CLAIM_PUBLISH_OR_ADMIN  => ['publish or admin'],
);

sub header
{
    my ($name) = @_;
    push @errors, "relay/tools/describe-api.pl: no description of the header \"$name\"" unless $HEADERS{$name};
    return { description => $HEADERS{$name} // '', schema => { type => 'string' } };
}

sub response_of
{
    my ($status, $given) = @_;
    $given = { description => $given } unless ref $given;
    my %response = (description => $given->{description});
    my @headers  = @{ $given->{headers} // [] };
    my $schema   = $given->{schema};
    my $type     = $given->{type} // 'application/json';
    $schema = ref_to($schema) if defined $schema && !ref $schema;
    # Not the whole body, but each of its frames is JSON.
    $schema = { type => 'string', contentMediaType => 'application/json',
        contentSchema => { oneOf => [ map { ref_to("relay.$_") } @{ $given->{frames} } ] } }
      if $given->{frames};
    $schema //= { type => 'string' } if $given->{type};
    if (!$schema && ($status >= 400 || $status == 308))
    {
        ($type, $schema) = ('application/problem+json', ref_to('Problem'));
        push @headers, 'Retry-After' if $status == 409 || $status == 429 || $status == 503;
    }
    $response{content} = { $type => { schema => $schema } } if $schema;
    $response{content}{'application/problem+json'} = { schema => ref_to('Problem') } if $schema && $status >= 400;
    $response{headers} = { map { $_ => header($_) } @headers } if @headers;
    return \%response;
}

# The responses that follow from the entry in the route table.
sub common_responses
{
    my ($route) = @_;
    my $has_token = !$route->{respond} && !$route->{has_credentials};
    my %responses   = (default => 'malformed request, or another error');
    $responses{429} = 'gate.request_rate exceeded' unless $route->{is_rate_exempt};
    $responses{404} = 'route disabled by the settings' if $route->{is_console} || $route->{is_web_push};
    if ($has_token)
    {
        $responses{401} = 'token missing, invalid or expired';
        $responses{403} = 'origin not allowed, or claim missing';
        $responses{503} = 'the store or the keys of the issuer are not available, or overload';
    }
    if ($route->{body_max})
    {
        $responses{400} = 'malformed body';
        $responses{411} = 'neither Content-Length nor a chunked body' unless $route->{body_optional};
        $responses{413} = 'body too large';
    }
    return %responses;
}

sub parameters_of
{
    my ($route, $description) = @_;
    my @parameters;
    push @parameters, { name => $1, in => 'path', required => JSON::PP::true,
        schema => $1 eq 'id' ? ref_to('Id') : { type => 'string', minLength => 1, maxLength => 255 } }
      if $route->{template} =~ /\{(\w+)\}/;
    for my $in ('query', 'headers')
    {
        for my $name (sort keys %{ $description->{$in} // {} })
        {
            my %parameter = (%{ $description->{$in}{$name} }, name => $name, in => $in eq 'query' ? 'query' : 'header');
            # an argument that is a JSON text
            $parameter{content} = { 'application/json' => { schema => $parameter{content} } } if $parameter{content};
            push @parameters, \%parameter;
        }
    }
    return @parameters;
}

sub operation_id
{
    my ($method, $path) = @_;
    my $name = lc $method . '_' . $path;
    $name =~ s{^(\w+)_/v1/}{$1_};
    $name =~ s/[^a-z0-9]+/_/g;
    $name =~ s/_$//;
    return $name;
}

sub operation_of
{
    my ($route, $description) = @_;
    my %responses   = (common_responses($route), %{ $description->{responses} });
    my %operation = (
        operationId => operation_id($route->{method}, $route->{template}),
        summary     => $description->{summary},
        tags        => [ $description->{tag} ],
        responses   => { map { $_ => response_of($_ eq 'default' ? 500 : $_, $responses{$_}) } keys %responses },
    );
    my @parameters = parameters_of($route, $description);
    $operation{parameters} = \@parameters if @parameters;
    $operation{requestBody} = { required => $route->{body_optional} ? JSON::PP::false : JSON::PP::true,
        content => { $description->{bodyType} // 'application/json' => { schema => ref_to($description->{body}) } } }
      if $description->{body};
    $operation{security} = security_of($route);
    push @errors, "relay/gate/api/routes.json: no \"body\" of \"$route->{key}\", which requires one"
      if $route->{body_max} && !$route->{body_optional} && !$description->{body};
    return \%operation;
}

# OpenAPI 3.1 allows roles for other types of authentication than OAuth: the claims.
sub security_of
{
    my ($route) = @_;
    return [] if $route->{respond} || $route->{has_credentials};
    my $claims = $CLAIMS{ $route->{claim} // 'GATE_CLAIM_NONE' };
    push @errors, "relay/tools/describe-api.pl: unknown claim $route->{claim}" unless $claims;
    my @security = ({ token => $claims // [] });
    push @security, { ticket => [] } if $route->{accepts_ticket};
    push @security, {} if $route->{token_optional};
    return \@security;
}

my %SECURITY = (
    token => { type => 'http', scheme => 'bearer', bearerFormat => 'JWT',
        description => 'the claims that a route requires are its roles' },
    ticket => { type => 'apiKey', in => 'query', name => 'ticket', description => 'see POST /v1/ticket' },
);

my %LICENSE = (name => 'PostgreSQL License', identifier => 'PostgreSQL');

sub openapi
{
    my ($routes, $descriptions, $schemas) = @_;
    my %paths;
    for my $route (@$routes)
    {
        my $description = $descriptions->{ $route->{key} } or next;
        my $operation   = operation_of($route, $description);
        $paths{ $route->{template} }{ lc $route->{method} } = $operation;
        next unless $route->{methods} =~ /\bHEAD\b/;
        my %head = (%$operation, operationId => operation_id('HEAD', $route->{template}),
            responses => { map { $_ => { description => $operation->{responses}{$_}{description} } } keys %{ $operation->{responses} } });
        $paths{ $route->{template} }{head} = \%head;
    }
    return {
        openapi => '3.1.0',
        info => { title => 'clairon relay', version => constant('CLAIRON_VERSION'), license => \%LICENSE,
            description => 'Routes with the tag console serve its page, and change with it.' },
        servers    => [ { url => '/' } ],
        paths      => \%paths,
        components => { schemas => $schemas, securitySchemes => \%SECURITY },
    };
}

# ---- AsyncAPI

sub asyncapi
{
    my ($frames, $descriptions, $schemas) = @_;
    my (%messages, %channels);
    for my $side ('client', 'relay')
    {
        $messages{"$side.$_"} = { name => $_, summary => $frames->{$side}{$_}{summary}, contentType => 'application/json',
            payload => ref_to("$side.$_") }
          for keys %{ $frames->{$side} };
    }
    my %carried = (ws => [ sort keys %messages ],
        map { my $name = $_; ($name => [ map { "relay.$_" } @{ $descriptions->{"GET /v1/$name"}{responses}{200}{frames} } ]) } 'sse', 'poll');
    for my $name (keys %carried)
    {
        $channels{$name} = { address => "/v1/$name", description => $descriptions->{"GET /v1/$name"}{summary},
            messages => { map { $_ => { '$ref' => "#/components/messages/$_" } } @{ $carried{$name} } } };
    }
    my $operation = sub {
        my ($action, $channel, $side) = @_;
        return { action => $action, channel => { '$ref' => "#/channels/$channel" },
            messages => [ map { { '$ref' => "#/channels/$channel/messages/$_" } } grep { /^$side\./ } @{ $carried{$channel} } ] };
    };
    return {
        asyncapi => '3.0.0',
        info => { title => 'clairon relay', version => constant('CLAIRON_VERSION'),
            license => { name => $LICENSE{name} },
            description => 'Frames between a relay and a client: JSON objects, one a line, one or more in a WebSocket text frame.' },
        defaultContentType => 'application/json',
        channels   => \%channels,
        operations => { receive => $operation->('receive', 'ws', 'client'), send => $operation->('send', 'ws', 'relay'),
            stream => $operation->('send', 'sse', 'relay'), poll => $operation->('send', 'poll', 'relay') },
        components => { messages => \%messages, schemas => $schemas },
    };
}

# ---- output

sub embedded
{
    my ($name, $text) = @_;
    my $etag = substr sha256_hex($text), 0, 32;
    my $c = "\nconst char gate_api_${name}_etag[] = \"\\\"$etag\\\"\";\nconst char gate_api_${name}[] =\n";
    while ($text =~ /(.{1,90})/gs)
    {
        my $part = $1;
        $part =~ s/([\\"])/\\$1/g;
        $c .= "    \"$part\"\n";
    }
    return "$c    \"\\n\";\n";
}

my ($schemas, $frames, $descriptions) = map { described($_) } 'schemas', 'frames', 'routes';
my @routes = routes();
my $client = client_frames();

compare('route', [ map { $_->{key} } @routes ], [ keys %$descriptions ], 'relay/gate/routes.c', 'relay/gate/api/routes.json');
compare('frame', [ keys %$client ], [ keys %{ $frames->{client} } ], 'relay/wire/client_message.c', 'relay/gate/api/frames.json');
compare("field of \"$_\"", $client->{$_}, [ keys %{ $frames->{client}{$_}{properties} } ],
    'relay/wire/client_message.c', 'relay/gate/api/frames.json')
  for grep { $frames->{client}{$_} } keys %$client;
compare('frame', relay_frames(), [ keys %{ $frames->{relay} } ], 'relay/', 'relay/gate/api/frames.json');
compare('member', envelope_members(), properties_of($schemas->{Notification}), 'decoder/protocol/envelope.h', 'relay/gate/api/schemas.json');

$schemas = expand($schemas);
for my $side ('client', 'relay')
{
    $schemas->{"$side.$_"} = frame_schema($side, $_, expand($frames->{$side}{$_})) for keys %{ $frames->{$side} };
}
my %documents = (
    openapi  => openapi(\@routes, $descriptions, $schemas),
    asyncapi => asyncapi($frames, $descriptions, $schemas),
);
my %texts = map { $_ => $json->encode($documents{$_}) } keys %documents;
for my $name (sort keys %texts)
{
    my %used = map { $_ => 1 } $texts{$name} =~ m{"#/components/schemas/([^"]+)"}g;
    push @errors, map { "relay/gate/api: no schema \"$_\"" } grep { !$schemas->{$_} } sort keys %used;
}
die map { "$_\n" } @errors if @errors;

my ($only) = @ARGV;
if (defined $only)
{
    print $texts{$only} // die("usage: describe-api.pl [openapi|asyncapi]\n"), "\n";
}
else
{
    print "/* Generated from relay/gate/api by relay/tools/describe-api.pl. */\n#include \"gate/routes.h\"\n",
      map { embedded($_, $texts{$_}) } sort keys %texts;
}
