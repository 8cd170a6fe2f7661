# Tests that an HTTP request for a group is rejected during the membership copy, because the notification would reach
# only some members.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1')});
# Created now, because later it would wait for the lock on the table.
$pg->safe_psql('postgres', q{SELECT pg_create_logical_replication_slot('clairon', 'clairon')});
my $locker = $pg->background_psql('postgres');
$locker->query_safe('BEGIN; LOCK TABLE clairon.member IN ACCESS EXCLUSIVE MODE');
my $store = Clairon::Test::store();
my $gate  = Clairon::Test::relay(undef, $store, roles => 'gate');
my $feed  = Clairon::Test::relay($pg, $store, roles => 'feed', wait => 0);
wait_until('the copy has started', sub {
    $pg->safe_psql('postgres', q{SELECT count(*) FROM pg_locks WHERE relation = 'clairon.member'::regclass AND NOT granted}) });

sub publish
{
    my ($type, @targets) = @_;
    return Mojo::UserAgent->new->post($gate->url('/v1/notifications'), { Authorization => 'Bearer ' . token(sub => 'app', publish => JSON::true()) },
        json => { payload => {}, routing => { audience => { type => $type, targets => \@targets }, retry => { ack_required => JSON::true() } } })->result;
}

is(publish(TEAM => 't1')->code, 503, 'a notification for a group is rejected during the copy');
is(publish(USER => 'u1')->code, 201, 'a notification for a user is accepted');
is(publish('ALL')->code, 201, 'a notification for ALL is accepted');
$locker->query_safe('COMMIT');
$locker->quit;
my $response;
wait_until('the notification is accepted', sub { $response = publish(TEAM => 't1'); $response->code == 201 });
my $id = $response->json->{id};
is_deeply($store->execute('HGETALL', $store->of($id, "ack:$id")), [ 'u1', 0 ], 'after the copy, a notification for a group is pending for all members');

done_testing();
