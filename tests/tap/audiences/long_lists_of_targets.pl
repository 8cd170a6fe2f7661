# Tests that recipients are sent up to 100 targets, and with more only their number: from rows, notify and HTTP, on all
# transports, in retries, in the error log and after a redrive. All targets receive the notification.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.console' => 'on', 'delivery.ack_timeout' => '200ms', 'delivery.backoff_base' => '50ms' });
my $array = q{(SELECT array_agg('u' || i) FROM generate_series(1, %d) AS i)};
my %long  = (type => 'USER', targets => [], recipients => 101);

sub http
{
    my ($method, $path, %options) = @_;
    return Clairon::Test::RawSocket->new($relay)->request($method, $path, ':body' => $options{body},
        Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true, admin => JSON::true));
}

sub publish
{
    my ($count, %retry) = @_;
    my $response = http(POST => '/v1/notifications', body => { payload => {}, routing => {
        audience => { type => 'USER', targets => [ map { "u$_" } 1 .. $count ] }, retry => \%retry } });
    is($response->{status}, 201, 'a notification is published');
    return $response->{json}{id};
}

sub audience { my ($client, $id) = @_; return $client->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $id })->{n}{routing}{audience} }

$pg->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, who text[]); ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'who')});
my ($first, $last) = map { $relay->client($_) } 'u1', 'u101';
my $sse = Clairon::Test::EventStream->open($relay, 'u2');
$sse->wait_message('connected');
my $pos = $first->pos;

# Rows, notify and HTTP.
$pg->safe_psql('postgres', sprintf "INSERT INTO t VALUES (1, $array), (2, $array)", 100, 101);
my ($short, $row) = map { my $n = $_; $first->wait_for(sub { ($_[0]{n}{payload}{after}{id} // 0) == $n }) } 1, 2;
is(scalar @{ $short->{n}{routing}{audience}{targets} }, 100, 'a row to 100 users has their list');
is_deeply($row->{n}{routing}{audience}, \%long, 'a row to 101 users has their number');
is_deeply(audience($last, $row->{n}{metadata}{id}), \%long, 'the last target receives it');
my ($line_of_first, $line_of_last) = map { (grep { /$row->{n}{metadata}{id}/ } map { @{ $_->{raw} } } $_)[0] =~ s/"pos":"[^"]*"//r } $first, $last;
is($line_of_first, $line_of_last, 'all recipients receive the same bytes');
my $notify = $pg->safe_psql('postgres', sprintf "SELECT clairon.notify('USER', $array, '{}')", 101);
is_deeply(audience($first, $notify), \%long, 'notify to 101 users has their number');
my $published = publish(101);
is_deeply(audience($last, $published), \%long, 'a publication to 101 users has their number');
$sse->next_notification;
is_deeply($sse->next_notification->{routing}{audience}, \%long, 'an event stream has the number');
is_deeply(audience($relay->client('u1', pos => $pos), $published), \%long, 'a resumed session has the number');
is_deeply(http(GET => "/v1/notifications/$published")->{json}{notification}{routing}{audience}, \%long, 'the trace has the number');
my ($tail) = grep { $_->{id} eq $published } @{ http(GET => '/v1/console/latest')->{json}{latest} };
is_deeply([ @$tail{qw(targets target_count)} ], [ [], 101 ], 'the live tail has the number');

# A retry, the error log and a redrive. Two users do not acknowledge.
my $id = publish(101, ack_required => JSON::true, limit => 1, backoff => 'FIXED');
my $retry = $last->wait_for(sub { ($_[0]{n}{metadata}{id} // '') eq $id && $_[0]{n}{routing}{retry}{attempts} == 1 });
is_deeply($retry->{n}{routing}{audience}, \%long, 'a retry has the number');
wait_until('the notification is in the error log', sub { $store->execute('XLEN', $store->shared('errors')) > 0 });
my (undef, $listed) = $relay->run('errors', 'list');
like($listed, qr/\Q$id\E/, 'the error log has the notification');
my $late = $relay->client('u101');
$relay->run('errors', 'redrive', '--all');
is_deeply(audience($late, $id), \%long, 'a redriven notification has the number');

# With hide_targets the number stays.
$relay->configure('delivery.hide_targets' => 'on');
$relay->restart;
is_deeply(audience($relay->client('u1', pos => $pos), $published), \%long, 'hidden targets leave the number');

done_testing();
