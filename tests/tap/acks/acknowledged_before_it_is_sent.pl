# Tests that a notification that another device acknowledged occupies no slot of a window, although the store replied that it
# is pending, to the page that the session read and to the delivery report, because the acknowledgement was still on its way.
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE own (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('own', 'USER', 'owner', ack_required => true)});
my $store = Clairon::Test::store();
my $feed  = Clairon::Test::relay($pg, $store, roles => 'feed');
my $late  = Clairon::Test::delayed_replies($store->{socket});
my $relay = Clairon::Test::relay(undef, $late, roles => 'gate', conf => { 'delivery.ack_timeout' => '1h' });

my $phone = $relay->client('u1');
$pg->safe_psql('postgres', q{INSERT INTO own SELECT i, 'u1' FROM generate_series(1, 3) i});
$phone->wait_row(3);
my %id = map { $_->{payload}{after}{id} => $_->{metadata}{id} } $phone->notifications;
sub is_acked { my ($row) = @_; return sub { $_[0]{t} eq 'acked' && grep { $_ eq $id{$row} } @{ $_[0]{ids} } } }

$late->hold(page => $late->script('pending_page'));
my $laptop = $relay->client('u1', win => 1);
$late->wait_held('page');
# The phone acknowledges row 1 while an earlier acknowledgement has no reply.
$late->hold(ack => $late->script('ack'));
$phone->ack($id{3});
$laptop->wait_for(is_acked(3));
$phone->ack($id{1});
$laptop->wait_for(is_acked(1));
$late->release('page');
$laptop->wait_row(1);
my $seen = @{ $laptop->{messages} };
$late->wait_held('ack');
$late->release('ack');
$laptop->wait_row(2);
my $acked = is_acked(1);
is(scalar(grep { $acked->($_) } @{ $laptop->{messages} }[ $seen .. $#{ $laptop->{messages} } ]), 1, 'acked follows the row');

done_testing();
