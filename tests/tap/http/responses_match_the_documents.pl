# Tests that the relay's responses and frames, and those of its clients, match its OpenAPI and AsyncAPI documents.
#
# Each route is requested with success and with each error that needs no fault of a server. A member that a document does
# not name is an error.
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch top);
use Clairon::Test::Client;
use Clairon::Test::EventStream;
use Clairon::Test::PushService;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $json  = JSON->new->utf8->canonical;
my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
system("umask 077; '${\ Clairon::Test::program()}' vapid >'${\ scratch()}/vapid'") == 0 or die "could not create a key\n";
$pg->safe_psql('postgres', q{
    CREATE TABLE tasks (id int PRIMARY KEY, owner text, title text, big text);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true, filter_columns => '{title}', ack_required => true, receipts => 'user');
    SELECT clairon.watch('tasks', 'TEAM', '=red', name => 'team', live => true, topic => 'team.tasks', only_when => 'id > 100');
    INSERT INTO clairon.member VALUES ('TEAM', 'red', 'u1');
    INSERT INTO tasks VALUES (1, 'u1', 'one'), (2, 'u1', 'two'), (3, 'u2', 'three')});
my $relay = Clairon::Test::relay($pg, $store, conf => {
    'gate.console' => 'on', 'gate.origins' => 'https://app.example', 'gate.ping' => '1s', 'rows.max_rows' => 5,
    'delivery.ack_timeout' => '1h', 'auth.leeway' => '0s',
    'webpush.vapid_key_file' => scratch() . '/vapid', 'webpush.subject' => 'mailto:ops@example.org',
    'webpush.app_url' => 'https://app.example/', 'webpush.origins' => 'https://push.example.net' });
my @records;
my %ADMIN = (admin => JSON::true, publish => JSON::true, sub => 'root');

# Sends the request and records the response. Options: claims (undef: no token), body, headers, and bad => 1: the body is
# invalid.
sub http
{
    my ($method, $path, %options) = @_;
    my $claims = exists $options{claims} ? $options{claims} : \%ADMIN;
    my $body = $options{body};
    push @records, { method => $method, path => $path, request => $body } if ref $body && !$options{bad};
    my $response = Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $body,
        ($claims ? (Authorization => 'Bearer ' . token(%$claims)) : ()), %{ $options{headers} // {} });
    push @records, { method => $method, path => $path, status => 0 + $response->{status}, headers => $response->{headers},
        body => $response->{body} };
    return $response;
}

sub statuses
{
    my ($expected, $method, $path, @cases) = @_;
    is(join(' ', map { http($method, $path, %$_)->{status} } @cases), $expected, "$method $path: $expected");
    return;
}

my %u1 = (sub => 'u1');
my $none = '00000000-0000-7000-8000-000000000000';

# The documents.
my %document;
for my $name ('openapi', 'asyncapi')
{
    my $response = http(GET => "/v1/$name.json", claims => undef, headers => { Origin => 'https://other.example' });
    is($response->{status}, 200, "/v1/$name.json needs no token, and pages of any origin may read it");
    $document{$name} = $response->{json};
    is(http(GET => "/v1/$name.json", claims => undef, headers => { 'If-None-Match' => "\"x\", $response->{headers}{etag}" })->{status}, 304,
        'its ETag avoids a second download');
    is($response->{headers}{'cache-control'}, 'no-cache', 'caches may keep it');
    is(http(GET => "/v1/$name.json", claims => undef, headers => { 'If-None-Match' => '*' })->{status}, 304, 'nor with any ETag');
    is(http(GET => "/v1/$name.json", claims => undef, headers => { 'If-None-Match' => '"x"' })->{status}, 200, 'another ETag does not');
    is(http(HEAD => "/v1/$name.json", claims => undef)->{headers}{'content-length'}, length $response->{body}, 'HEAD has its length');
}
is($document{openapi}{openapi}, '3.1.0', 'OpenAPI has version 3.1');
like($document{asyncapi}{asyncapi}, qr/^3\./, 'AsyncAPI has version 3');
is($document{openapi}{components}{schemas}{Notification}{properties}{metadata}{properties}{data}{type}, 'object',
    'the schema of a notification has metadata.data');

# Probes.
statuses('200', GET => $_, { claims => undef }) for '/healthz', '/readyz', '/readyz?need=feed', '/metrics';
statuses('400', GET => '/readyz?need=x', { claims => undef });

# Sessions.
my @frames;
sub session { my ($user, %options) = @_; my $client = $relay->client($user, %options); push @frames, $client; return $client }
sub sent { my ($client, %frame) = @_; push @records, { side => 'client', frame => \%frame }; $client->send(\%frame); return }
my $client = session('u1', ends => JSON::true);
push @records, { side => 'client', frame => { t => 'connect', r => 1, token => 'x', pos => undef, win => 3, topics => ['a', 'b*'], ends => JSON::true, later => 1 } };
my $second = session('u1');
$pg->safe_psql('postgres', q{BEGIN; SELECT clairon.annotate('me', '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', '{"why": [1]}');
    INSERT INTO tasks VALUES (4, 'u1', 'four', repeat('x', 100)); UPDATE tasks SET title = 'vier' WHERE id = 4; DELETE FROM tasks WHERE id = 4; COMMIT});
my $msg = $client->wait_for('msg');
is_deeply($msg->{n}{metadata}{data}, { why => [1] }, 'a notification has the data of its transaction');
$client->wait_for('end');
sent($client, t => 'ack', ids => [ $msg->{n}{metadata}{id} ]);
is_deeply($second->wait_for('acked')->{ids}, [ $msg->{n}{metadata}{id} ], 'another session receives the acknowledgement');
sent($client, t => 'nack', ids => [ $none ], delay => 1000);
sent($client, t => 'ping');
$client->wait_for('pong');
$client->wait_for('ping');
sent($client, t => 'pong');
sent($client, t => 'subscribe', r => 3, topics => [ 'a', 'b*' ]);
$client->wait_for('subscribed');
sent($client, t => 'unsubscribe', r => 4, topics => ['a']);
$client->wait_for(sub { ($_[0]{r} // 0) == 4 });
sent($client, t => 'refresh', r => 5, token => token(%u1));
$client->wait_for('refreshed');
my $r = 10;
sub rows { my (%fields) = @_; my $number = ++$r; sent($client, t => 'rows', r => $number, source => 'tasks', %fields); return $client->wait_for(sub { ($_[0]{r} // 0) == $number }) }
my $all = rows();
is(scalar @{ $all->{rows} }, 2, 'rows are returned');
is(rows(where => { title => [ 'one', 'two' ] }, order => ['-title'], limit => 1)->{rest}, JSON::true, 'with conditions, too');
is(rows(where => { title => 'one' }, count => JSON::true)->{count}, 1, 'their number is returned');
ok(defined rows(snapshot => $all->{snapshot})->{ok}, 'a snapshot is checked');
is(rows(rule => 'none')->{code}, 103, 'a missing rule is an error');
sent($client, t => 'barrier', r => 50);
$client->wait_for('barrier');
my $xid = $pg->safe_psql('postgres', q{BEGIN; SELECT pg_current_xact_id(); INSERT INTO tasks VALUES (9, 'u2', 'nine'); COMMIT});
sent($client, t => 'barrier', r => 51, x => $xid);
is($client->wait_for(sub { ($_[0]{r} // 0) == 51 })->{committed}, JSON::true, 'a barrier has the outcome');
rows(rule => 'team');
$pg->safe_psql('postgres', q{DELETE FROM clairon.member});
$client->wait_for('reload');
my $unknown = session('u1', pos => '99-1');
$unknown->wait_for('gap');
my $short = session('u3', exp => int(time) + 5);
$short->wait_for('expiring');
is($short->wait_for('bye')->{code}, 4100, 'a session ends with its token');
my $stream = Clairon::Test::EventStream->open($relay, 'u1', ':path' => '/v1/sse?ends=1&rows=tasks/team');
my %stream = (method => 'GET', path => '/v1/sse', status => 0 + $stream->{status}, headers => $stream->{headers});
push @records, { %stream, body => 'data: ' . $json->encode($stream->wait_message('connected')) };
push @records, { %stream, body => 'data: ' . $json->encode($stream->wait_message('msg')) };
statuses('400 400 401 401 401 403', GET => '/v1/sse?topics=*a', { claims => \%u1 }, { claims => \%u1, headers => { Host => 'x' } },
    { claims => undef }, { claims => { sub => 'u1', secret => 'wrong' x 10 } }, { claims => { sub => 'u1', exp => 1 } },
    { claims => \%u1, headers => { Origin => 'https://evil.example' } });
statuses('426', GET => '/v1/ws', { claims => undef });
my %upgrade = (Upgrade => 'websocket', Connection => 'Upgrade', 'Sec-WebSocket-Version' => 13, 'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==');
statuses('101 400 403', GET => '/v1/ws', map { { claims => undef, headers => { %upgrade, %$_ } } } {},
    { 'Sec-WebSocket-Key' => 'x' }, { Origin => 'https://evil.example' });
my $poll = http(GET => '/v1/poll?wait=5&ends=1&max=1', claims => \%u1);
is($poll->{status}, 200, 'a poll returns notifications');
statuses('204', GET => "/v1/poll?wait=0&topics=none&pos=$poll->{headers}{'clairon-pos'}", { claims => \%u1 });
statuses('400', GET => '/v1/poll?wait=x', { claims => \%u1 });
statuses('401', GET => '/v1/poll', { claims => undef });

# Rows.
statuses('200', GET => "/v1/rows?source=tasks$_", { claims => \%u1 })
  for '', '&count=true', "&snapshot=$all->{snapshot}", '&where=%7B%22title%22%3A%22one%22%7D&order=%5B%22title%22%5D&limit=1';
statuses('403', GET => '/v1/rows?source=none', { claims => \%u1 });
statuses('400', GET => "/v1/rows?source=tasks&$_", { claims => \%u1 }) for 'limit=0', 'snapshot=x', 'where=x';
$pg->safe_psql('postgres', q{INSERT INTO tasks SELECT i, 'many' FROM generate_series(20, 30) i});
statuses('413', GET => '/v1/rows?source=tasks', { claims => { sub => 'many' } });
statuses('200', GET => "/v1/barrier$_", { claims => \%u1 }) for '', "?x=$xid";
statuses('400 400', GET => '/v1/barrier?x=0', { claims => \%u1 }, { claims => \%u1 });

# Notifications of other kinds, as the decoder writes them in text mode.
$pg->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('text', 'clairon');
    CREATE TABLE news (id int PRIMARY KEY, small text, large text);
    ALTER TABLE news ALTER large SET STORAGE EXTERNAL;
    SELECT clairon.watch('news', 'ALL', operations => '{create,update,delete,truncate}', ttl => '1 h', type => 'SYSTEM', priority => 'HIGH');
    INSERT INTO news VALUES (1, 'a', repeat('x', 10000)), (2, 'b', repeat('x', 2000000));
    UPDATE news SET small = 'b' WHERE id = 1; UPDATE news SET id = 3 WHERE id = 1; TRUNCATE news;
    SELECT clairon.notify('USER', (SELECT array_agg('v' || i) FROM generate_series(1, 200) i), '{"before": 5}', ack_required => true,
        receipts => 'user', escalate_after => '1 h', web_push => '{"title": "t"}')});
my @written = split /\n/, $pg->safe_psql('postgres', q[SELECT data FROM pg_logical_slot_get_changes('text', NULL, NULL) WHERE data LIKE '{"metadata"%']);
cmp_ok(scalar @written, '>=', 6, 'the decoder writes notifications');
push @records, map { { side => 'relay', frame => { t => 'msg', pos => '1-0', n => JSON::decode_json($_) } } } @written;

# Acknowledgements and tickets.
statuses('204 400 401 401 413 411', POST => '/v1/ack', { claims => \%u1, body => { ids => [$none] } }, { claims => \%u1, body => '{}' },
    { claims => undef, body => '{}' }, { claims => { sub => undef }, body => '{}' }, { claims => \%u1, headers => { 'Content-Length' => 2_000_000 } }, { claims => \%u1 });
statuses('410', POST => '/v1/ack', { claims => undef, body => { ticket => 'f' x 32 } });
statuses('204 400', POST => '/v1/nack', { claims => \%u1, body => { ids => [$none], delay => 5 } }, { claims => \%u1, body => '{}' });
statuses('200', POST => '/v1/ticket', { claims => \%u1 });

# Publications.
my %to = (payload => { text => 'x' }, routing => { audience => { type => 'USER', targets => ['u5'] }, retry => { ack_required => JSON::true, limit => 0 } });
my %key = (headers => { 'Idempotency-Key' => 'k' });
my $published = http(POST => '/v1/notifications', body => \%to, %key);
is($published->{status}, 201, 'a notification is published');
my $id = $published->{json}{id};
statuses('200 422', POST => '/v1/notifications', { body => \%to, %key }, { body => { %to, metadata => { type => 'SYSTEM', priority => 'HIGH', topic => 't', source => 's' } }, %key });
statuses('400 403 401', POST => '/v1/notifications', { body => '{}' }, { body => \%to, claims => \%u1 }, { body => \%to, claims => undef });
my $five = session('u5', token => token(sub => 'u5'));
$five->wait_for('msg');
statuses('200 200 403 401', GET => "/v1/notifications/$id", {}, { claims => { sub => 'p', publish => JSON::true } }, { claims => \%u1 }, { claims => undef });
statuses('404', GET => "/v1/notifications/$none", {});
statuses('200', GET => "/v1/notifications/$msg->{n}{metadata}{id}", {});
statuses('204 403', POST => "/v1/notifications/$id/drop", {}, { claims => \%u1 });
statuses('404', POST => "/v1/notifications/$none/drop", {});
wait_until('a receipt exists', sub { @{ http(GET => '/v1/receipts')->{json}{receipts} } });
statuses('200', GET => '/v1/receipts?limit=1', {});
statuses('400', GET => "/v1/receipts?$_", {}) for 'limit=0', 'after=x';
statuses('403', GET => '/v1/receipts', { claims => \%u1 });

# Web Push.
my %subscription = (endpoint => 'https://push.example.net/a', keys => {
    p256dh => 'BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4', auth => 'BTBZMqHH6r4Tts7J_aSIgg' });
statuses('200 403', GET => '/v1/webpush/key', { claims => undef }, { claims => undef, headers => { Origin => 'https://evil.example' } });
statuses('201 200 400 401', POST => '/v1/webpush/subscriptions', { claims => \%u1, body => \%subscription }, { claims => \%u1, body => \%subscription },
    { claims => \%u1, body => '{}' }, { claims => undef, body => '{}' });
statuses('200', GET => '/v1/webpush/subscriptions', { claims => \%u1 });
statuses('200', GET => '/v1/console/subscriptions?id=u1', {});
statuses('200', POST => '/v1/webpush/test', { claims => { sub => 'nobody' } });
statuses('204 400', DELETE => '/v1/webpush/subscriptions', { claims => \%u1, body => { endpoint => $subscription{endpoint} } }, { claims => \%u1, body => '{}' });

# Operators.
statuses('200', GET => $_, { claims => undef }) for '/console', '/console/console.css', '/console/console.js';
statuses('308', GET => '/console/', { claims => undef });
statuses('200 401 403', GET => $_, {}, { claims => undef }, { claims => \%u1 })
  for '/v1/console', '/v1/console/errors', '/v1/console/latest', '/v1/console/user?id=u1', "/v1/console/receipts?id=$id", '/v1/console/rules';
statuses('400', GET => "/v1/console/$_", {}) for 'errors?before=x', 'latest?after=x', 'user', 'receipts?id=x', 'subscriptions';
statuses('201 200 400', POST => '/v1/console/notifications', ({ body => \%to, headers => { 'Idempotency-Key' => 'c' } }) x 2, { body => '{}' });
statuses('404', POST => "/v1/console/notifications/$none/drop", {});
statuses('204', POST => "/v1/console/notifications/$id/drop", {});
for my $act ('redrive', 'drop')
{
    $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{u6}', '{\"a\": 1}', ack_required => true, ttl => '1 ms')");
    my ($entry) = @{ wait_until('an error log entry exists', sub { my $found = http(GET => '/v1/console/errors')->{json}{errors}; @$found ? $found : 0 }) };
    statuses('200 400 404', POST => "/v1/console/$act", { body => { entry => $entry->{entry} // $entry->{id} } }, { body => '{}' }, { body => { entry => '1-1' } });
}
statuses('204 400 403', POST => '/v1/realtime', { body => { on => JSON::true } }, { body => '{}' }, { claims => \%u1, body => '{}' });
my %malformed = (headers => { 'Transfer-Encoding' => 'chunked', 'Content-Length' => undef }, body => "x\r\n");
statuses('400', POST => $_, \%malformed) for '/v1/ticket', '/v1/webpush/test', map { ("/v1/$_/$none/drop") } 'notifications', 'console/notifications';
statuses('405', PUT => $_, {}) for '/v1/ack', '/healthz';

statuses('200 403', GET => "/v1/notifications/$id/why?user=u5", {}, { claims => \%u1 });
statuses('404', GET => "/v1/notifications/$none/why?user=u5", {});
statuses('400', GET => "/v1/notifications/$id/why", {});
statuses('200', GET => "/v1/notifications/$id", {});
statuses('200 401 403', GET => '/v1/audit', {}, { claims => undef }, { claims => \%u1 });
statuses('400', GET => "/v1/audit?$_", {}) for 'limit=0', 'after=x';
statuses('204 400 403', POST => "/v1/$_/u8/disconnect", { body => { until => '2999-01-01T00:00:00Z', jti => 'x' } }, { body => '[]' }, { claims => \%u1, body => '{}' }) for 'users', 'console/users';
statuses('200 403', POST => '/v1/users/u5/forget', {}, { claims => \%u1 });
statuses('400', POST => "/v1/users/${\('x' x 300)}/forget", {});
statuses('400', POST => '/v1/backchannel-logout', { claims => undef, body => 'logout_token=x', headers => { 'Content-Type' => 'application/x-www-form-urlencoded' } });

# Compare all of them.
push @records, map { my $from = $_; map { { side => 'relay', frame => $_ } } @{ $from->{messages} } } @frames;
my $file = scratch() . '/records';
open my $out, '>', $file or die $!;
print {$out} map { $json->encode($_) . "\n" } @records;
close $out;
for my $name ('openapi', 'asyncapi')
{
    open my $to, '>', scratch() . "/$name" or die $!;
    print {$to} $json->encode($document{$name});
    close $to;
}
my $report = qx{/usr/bin/python3 '@{[top()]}/tests/tools/validate.py' '@{[scratch()]}/openapi' '@{[scratch()]}/asyncapi' <'$file' 2>&1};
is($?, 0, 'the validator succeeds');
my (%seen, @faults);
for (split /\n/, $report) { if (/^seen (.*)/) { $seen{$1} = 1 } else { push @faults, $_ } }
is(join("\n", @faults), '', 'all responses and frames match the documents');

# Each part of the documents was tested, except responses that need a fault.
my @parts = map { my $path = $_; map { my $method = $_; map { "\U$method\E $path $_" } keys %{ $document{openapi}{paths}{$path}{$method}{responses} } }
      grep { $_ ne 'head' } keys %{ $document{openapi}{paths}{$path} } } keys %{ $document{openapi}{paths} };
$seen{'POST /v1/backchannel-logout 200'} = 1;    # needs a provider: auth/kick.pl
my @untested = grep { !$seen{$_} && !/ (401|403|404|409|411|413|422|429|500|503|default)$/ } @parts;
is(join("\n", sort @untested), '', 'each success and each kind of invalid request was tested');
is(join("\n", grep { !$seen{$_} } map { s/\./ /r } grep { /^(?:client|relay)\./ } sort keys %{ $document{asyncapi}{components}{schemas} }), '',
    'each type of frame was tested');

done_testing();
