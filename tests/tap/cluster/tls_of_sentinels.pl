# Tests sentinels and their store over TLS: the relay verifies the certificates of both, and follows a failover.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

plan skip_all => 'hiredis does not support TLS: see tls_of_all_nodes.pl' if system('pkg-config --exists hiredis_ssl') != 0;

my $authority = Clairon::Test::Authority->new;
my $tls       = $authority->certificate('IP:127.0.0.1');
my %trusted   = Clairon::Test::Authority::settings($tls);
my $pg        = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id serial PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $sentinels = Clairon::Test::sentinels(tls => $tls);

my $untrusting = Clairon::Test::relay($pg, $sentinels, start => 0, wait => 0, conf => { %trusted, 'store.tls_ca' => undef });
$untrusting->start;
$untrusting->wait_for_log(qr/could not find the primaries of the store.*certificate verify failed/);
pass('sentinels with the certificate of an unknown CA are rejected');
$untrusting->stop;

my $relay  = Clairon::Test::relay($pg, $sentinels, conf => { %trusted, 'delivery.ack_timeout' => '1h', 'gate.ping' => '1h' });
my $client = $relay->client('u1');
my $rows   = 0;

sub insert { my ($count) = @_; $pg->safe_psql('postgres', q{INSERT INTO t (owner) VALUES ('u1')}) for 1 .. $count; return $rows += $count }

$client->wait_row(insert(10));
my $former = $sentinels->primary;
$former->kill9;
$client->wait_row(insert(10));
isnt($sentinels->wait_failover($former), $former, 'notifications are delivered by another primary');
my @stored = map { $_->{data} =~ /"after":\{"id":(\d+)/ ? $1 : 'none' } $sentinels->entries;
is_deeply(\@stored, [ 1 .. $rows ], 'each row is stored once, in order');
$client->ack(map { $_->{metadata}{id} } $client->notifications);
wait_until('all acknowledgements are stored', sub { $sentinels->pending == 0 });
wait_confirmed($pg);
pass('the slot advances');

done_testing();
