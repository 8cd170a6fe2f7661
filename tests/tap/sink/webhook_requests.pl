# Tests the requests of the webhook: bodies, signatures, repetition with the same id and body, outcomes, an endpoint that is
# gone or hangs, and escalations with their notification.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Clairon::Test::Endpoint;
use Clairon::Test::Receipts;
use Digest::SHA qw(hmac_sha256);
use JSON ();
use MIME::Base64 qw(decode_base64 encode_base64);
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $endpoint = Clairon::Test::Endpoint->launch;

my @keys = map { encode_base64("secret number $_, long enough", '') } 1 .. 2;
my $secrets = Clairon::Test::scratch() . '/secrets';

sub write_secrets
{
    open my $file, '>', $secrets or die "could not write: $!";
    print {$file} map { "whsec_$_\n" } @_;
    close $file;
    chmod 0600, $secrets;
    return;
}
write_secrets($keys[0]);
my %conf = ('webhook.url' => $endpoint->url, 'webhook.secret_file' => $secrets, 'webhook.allow_private' => 'true', 'webhook.batch' => 50,
    'webhook.outcomes' => 'acked, expired, escalated', 'webhook.timeout' => '2s');
my $first  = Clairon::Test::relay($pg, $store, conf => { %conf, 'receipts.sql' => 'true' });
my $second = Clairon::Test::relay($pg, $store, conf => \%conf);
sub metric { my ($name) = @_; return $first->metric(qq(clairon_sink_$name\{sink="webhook"\})) + $second->metric(qq(clairon_sink_$name\{sink="webhook"\})) }

# Returns the signature of a request by this secret.
sub signature
{
    my ($request, $key) = @_;
    my $headers = $request->{headers};
    return 'v1,' . encode_base64(hmac_sha256(join('.', $headers->{'webhook-id'}, $headers->{'webhook-timestamp'}, $request->{body}), decode_base64($key)), '');
}

sub wait_received { my %wanted = map { $_ => 1 } @_; return wait_until('the endpoint has received the receipts', sub { my %had = map { $_ => 1 } $endpoint->received; !grep { !$had{$_} } keys %wanted }) }

# Requests.
my @added = $receipts->add((map { {} } 1 .. 120), { outcome => 'expired', user_id => 'a:b:c' });
my @omitted = $receipts->add({ outcome => 'dropped' });
wait_received(@added);
my @requests = $endpoint->requests;
is_deeply([ grep { $_->{json}{type} ne 'receipts' } @requests ], [], 'each request has the type receipts');
is_deeply([ sort keys %{ $requests[0]{json}{receipts}[0] } ],
    [ sort qw(id notification user_id outcome round at delivered_at attempts emitter source topic acked recipients) ], 'a receipt has all members');
is_deeply([ grep { @{ $_->{json}{receipts} } > 50 } @requests ], [], 'no request has more receipts than webhook.batch');
is_deeply([ grep { $_->{headers}{'webhook-signature'} ne signature($_, $keys[0]) } @requests ], [], 'each request is signed');
is_deeply([ grep { $_->{headers}{'content-type'} ne 'application/json' } @requests ], [], 'each request is JSON');
wait_until('nothing is pending', sub { $receipts->pending('webhook') == 0 });
ok(!(grep { $_ eq $omitted[0] } $endpoint->received), 'an outcome that is not in webhook.outcomes is acknowledged, but not sent');

# Repetition.
$endpoint->reply(500);
my $before = () = $endpoint->requests;
my ($repeated) = $receipts->add({});
wait_until('the request is repeated', sub { @requests = $endpoint->requests; @requests >= $before + 3 });
$endpoint->reply(204);
wait_received($repeated);
@requests = ($endpoint->requests)[ $before .. $before + 2 ];
is_deeply([ map { $_->{body} } @requests ], [ ($requests[0]{body}) x 3 ], 'a repeated request has the same body');
is_deeply([ map { $_->{headers}{'webhook-id'} } @requests ], [ ($requests[0]{headers}{'webhook-id'}) x 3 ], 'a repeated request has the same id');
cmp_ok(metric('failures_total'), '>=', 3, 'failures are counted');

# An endpoint that does not reply.
$endpoint->reply(0);
$before = () = $endpoint->requests;
my ($hanging) = $receipts->add({});
wait_until('the request arrived', sub { $endpoint->requests > $before });
is(($first->get('/readyz'))[0], 200, 'the relay is ready while the endpoint hangs');
wait_until('the SQL sink does not wait for the webhook', sub { grep { $_ eq $hanging } $receipts->rows });
$endpoint->reply(200);
wait_received($hanging);

# A redirect is not followed.
$endpoint->reply(302, 'Location: ' . $endpoint->url);
$before = () = $endpoint->requests;
my ($redirected) = $receipts->add({});
wait_until('the request is repeated', sub { $endpoint->requests >= $before + 2 });
@requests = ($endpoint->requests)[ $before, $before + 1 ];
is($requests[1]{headers}{'webhook-id'}, $requests[0]{headers}{'webhook-id'}, 'a redirect is a failure');
$endpoint->reply(200);
wait_received($redirected);

# A receipt is trimmed while its request is repeated.
$endpoint->reply(500);
$before = () = $endpoint->requests;
my ($trimmed) = $receipts->add({});
wait_until('the request arrived', sub { $endpoint->requests > $before });
$store->execute('XTRIM', $store->shared('receipts'), 'MAXLEN', 0);
my ($later) = $receipts->add({});
wait_until('the trimmed receipt is dropped', sub { metric('dropped_total') == 1 });
$endpoint->reply(200);
wait_received($later);
wait_until('nothing is pending', sub { $receipts->pending('webhook') == 0 });
ok(!(grep { $_ eq $trimmed } $endpoint->received), 'a receipt that was trimmed is not sent any more');
delete $receipts->{ids}{$trimmed};

# An endpoint that replies 410 Gone.
$endpoint->reply(410);
my ($gone) = $receipts->add({});
wait_until('the webhook is switched off on both relays', sub { metric('off') == 2 });
my @waiting = $receipts->add(map { {} } 1 .. 3);
$before = () = $endpoint->requests;
my (undef, $out) = $first->run('doctor');
like($out, qr/^ok +sink +webhook endpoint: endpoint replies, with status 410 to GET$/m, 'the doctor connects to the endpoint');
like(($first->run('doctor', '--webhook.url=https://127.0.0.1:1/', '--webhook.allow_private=false'))[1], qr/^ERROR +sink +webhook endpoint: .*\n +hint: .*allow_private$/m, 'the doctor reports an endpoint that it must not connect to');
like($out, qr/^WARN +sink +webhook: .*switched off.*\n.*SIGHUP/m, 'the doctor reports it');
$endpoint->reply(200);
write_secrets(@keys);
is($endpoint->requests, $before, 'no further requests are sent');
kill HUP => $second->pid;
wait_received($gone, @waiting);
wait_until('the webhook is on again', sub { metric('off') == 0 });
kill HUP => $first->pid;
$first->wait_for_log(qr/msg="secrets of the webhook reloaded"/);
my @fresh = $receipts->add(map { {} } 1 .. 10);
wait_received(@fresh);
@requests = grep { my $request = $_; grep { $_->{id} eq $fresh[0] } @{ $request->{json}{receipts} } } $endpoint->requests;
ok((grep { my $request = $_; $request->{headers}{'webhook-signature'} eq join ' ', map { signature($request, $_) } @keys } @requests), 'after a reload both secrets sign');

# An escalation has the notification, while it is pending.
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{"text":"urgent"}', ack_required => true)});
my $entry;
wait_until('the notification is stored', sub { ($entry) = $store->entries; $entry });
my ($shard)     = $entry->{stream} =~ /\{(\d+)\}/;
my ($escalated) = $receipts->add({ notification => $entry->{id}, user_id => 'u1', outcome => 'escalated', shard => $shard // 0 });
my ($ended)     = $receipts->add({ outcome => 'escalated' });
wait_received($escalated, $ended);
my %by_id = map { $_->{id} => $_ } map { @{ $_->{json}{receipts} } } $endpoint->requests;
is_deeply($by_id{$escalated}{n}, JSON::decode_json($entry->{data}), 'an escalation has its notification');
ok(!exists $by_id{$ended}{n}, 'an escalation whose notification has ended has none');

# A relay dies.
$endpoint->reply(500);
my @last = $receipts->add(map { {} } 1 .. 300);
wait_until('requests fail', sub { metric('failures_total') > 10 || grep { $_->{json}{receipts}[0]{id} eq $last[0] } $endpoint->requests });
$second->kill9;
$endpoint->reply(200);
wait_received(@last);
wait_until('nothing is pending', sub { $receipts->pending('webhook') == 0 });
my %seen = map { $_ => 1 } $endpoint->received;
delete $receipts->{ids}{ $omitted[0] };
is_deeply([ grep { !$seen{$_} } sort keys %{ $receipts->{ids} } ], [], 'each receipt was received');
done_testing();
